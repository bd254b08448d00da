import { expect, test } from 'vitest'
import { SentEvents } from './sent-events.ts'

const idOf = (text: string | undefined) => /\nid: (.+)\n/.exec(text ?? '')?.[1]

function send(events: SentEvents, data: object, kinds: readonly boolean[] = [true]) {
  const texts = events.next(
    () => new Map(kinds.map((isRaw) => [isRaw, events.textOf('tick', data)])),
  )
  return texts.get(kinds[0] ?? true)
}

test('returns the events after an id, and none after the last one', () => {
  const events = new SentEvents()
  const first = idOf(send(events, { at: 1 }))
  const second = send(events, { at: 2 })
  expect(events.after(first, true)).toEqual([second])
  expect(events.after(idOf(second), true)).toEqual([])
})

test('does not know ids of other processes, of the future, or that are none', () => {
  const events = new SentEvents()
  const first = idOf(send(events, { at: 1 })) ?? ''
  const other = idOf(send(new SentEvents(), { at: 1 }))
  const ids = [undefined, '', other, `${first}9`, first.replace('-1', '--1'), '-', 'x-1e3']
  for (const id of ids) expect(events.after(id, true)).toBeUndefined()
})

test('keeps 60 events', () => {
  const events = new SentEvents()
  const ids = Array.from({ length: 62 }, (_, at) => idOf(send(events, { at })))
  expect(events.after(ids[0], true)).toBeUndefined()
  expect(events.after(ids[1], true)).toHaveLength(60)
})

test('a caller that may not see keys gets no text that was made with them', () => {
  const events = new SentEvents()
  const first = idOf(send(events, { key: '198.51.100.7' }, [true, false]))
  send(events, { key: '198.51.100.7' }, [true])
  expect(events.after(first, true)).toHaveLength(1)
  expect(events.after(first, false)).toBeUndefined()
})
