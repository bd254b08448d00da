import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { KeptWorker, parseInWorker } from './parse-in-worker.ts'

/** Far longer than a worker takes to start, also on a busy machine. */
const TIMEOUT_MS = 60_000

/** Answers with its own number of orders, and fails in the ways that a parser can fail. */
const program = `
import { parentPort } from 'node:worker_threads'
let orders = 0
parentPort.on('message', (order) => {
  orders += 1
  if (order === 'throw') throw new Error('a fault of the parser')
  if (order === 'exit') process.exit(0)
  if (order === 'hang') for (;;);
  if (order === 'memory') for (const kept = []; ; ) kept.push(new Array(100_000).fill({}))
  if (order === 'later') setTimeout(() => { throw new Error('after the answer') }, 1)
  parentPort.postMessage({ order, orders })
})
`

test('a worker for one order alone has not seen another', async () => {
  const module = moduleOf(program)
  for (const order of ['a', 'b']) {
    expect(await parseInWorker(module, order, TIMEOUT_MS)).toEqual({ order, orders: 1 })
  }
})

test('a kept worker answers one order after another', async () => {
  const kept = new KeptWorker(moduleOf(program))
  kept.warmUp()
  const answers = ['a', 'b', 'c'].map((order) => kept.parse(order, TIMEOUT_MS))
  expect(await Promise.all(answers)).toEqual([
    { order: 'a', orders: 1 },
    { order: 'b', orders: 2 },
    { order: 'c', orders: 3 },
  ])
  kept.replace()
  expect(await kept.parse('d', TIMEOUT_MS)).toEqual({ order: 'd', orders: 1 })
})

test('a kept worker is ready after its first order, also if it fails at it', async () => {
  const kept = new KeptWorker(moduleOf(program))
  await kept.ready('first', TIMEOUT_MS)
  expect(await kept.parse('second', TIMEOUT_MS)).toEqual({ order: 'second', orders: 2 })
  await kept.ready('throw', TIMEOUT_MS)
  expect(await kept.parse('next', TIMEOUT_MS)).toEqual({ order: 'next', orders: 1 })
})

test.each([
  ['throw', 'a fault of the parser', TIMEOUT_MS],
  ['exit', 'the worker has ended', TIMEOUT_MS],
  ['hang', 'it takes too long', 300],
  ['memory', 'reaching memory limit', TIMEOUT_MS],
])('a kept worker is replaced after the order "%s"', async (order, reason, timeoutMs) => {
  const kept = new KeptWorker(moduleOf(program))
  const refused = expect(kept.parse(order, timeoutMs)).rejects.toThrow(reason)
  const next = kept.parse('next', TIMEOUT_MS)
  await refused
  expect(await next).toEqual({ order: 'next', orders: 1 })
})

test('a worker that fails after its answer does not end the process', async () => {
  const kept = new KeptWorker(moduleOf(program))
  expect(await kept.parse('later', TIMEOUT_MS)).toEqual({ order: 'later', orders: 1 })
  expect(await kept.parse('next', TIMEOUT_MS)).toMatchObject({ order: 'next' })
})

function moduleOf(text: string): URL {
  const folder = mkdtempSync(join(tmpdir(), 'tidegate-worker-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const file = join(folder, 'worker.mjs')
  writeFileSync(file, text)
  return pathToFileURL(file)
}
