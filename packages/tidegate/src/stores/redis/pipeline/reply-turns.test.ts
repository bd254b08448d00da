import { expect, test } from 'vitest'
import { ReplyTurns } from './reply-turns.ts'

/** A caller that goes on over some promises, as callers of a limiter do. */
async function goOn(seen: string[], name: string): Promise<void> {
  await undefined
  await undefined
  await undefined
  seen.push(`${name} goes on`)
}

test('the callers of a reply continue before the next reply is handled', async () => {
  const turns = new ReplyTurns()
  const seen: string[] = []
  const last = new Promise<void>((resolve) => {
    for (const name of ['first', 'second', 'third']) {
      turns.take(() => {
        seen.push(name)
        const continued = goOn(seen, name)
        if (name === 'third') void continued.then(resolve)
      })
    }
  })
  expect(seen).toEqual(['first'])
  expect(turns.isTaken).toBe(true)
  await last
  const continued = ['first', 'first goes on', 'second', 'second goes on', 'third', 'third goes on']
  expect(seen).toEqual(continued)
})

test('replies of later turns of the event loop do not wait', async () => {
  const turns = new ReplyTurns()
  const seen: string[] = []
  turns.take(() => seen.push('first'))
  await new Promise((resolve) => setImmediate(resolve))
  expect(turns.isTaken).toBe(false)
  turns.take(() => seen.push('second'))
  expect(seen).toEqual(['first', 'second'])
})

test('a reply that cannot be handled does not hold up the others', async () => {
  const turns = new ReplyTurns()
  const fails = () => {
    throw new Error('broken')
  }
  expect(() => turns.take(fails)).toThrow('broken')
  const handled = new Promise<void>((resolve) => turns.take(resolve))
  await handled
})
