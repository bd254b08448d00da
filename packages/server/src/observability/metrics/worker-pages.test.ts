import type { MetricFamily } from 'tidegate/metrics'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { type PageMessage, WorkerPage, WorkerPages } from './worker-pages.ts'

beforeEach(() => {
  vi.useFakeTimers()
})

afterEach(() => {
  vi.useRealTimers()
})

function pageOf(requests: number, connections: number): readonly MetricFamily[] {
  return [
    {
      name: 'requests_total',
      help: '',
      type: 'counter',
      samples: [{ labels: {}, value: requests }],
    },
    { name: 'connections', help: '', type: 'gauge', samples: [{ labels: {}, value: connections }] },
  ]
}

function sampleOf(families: readonly MetricFamily[], name: string, state?: string): number {
  const { samples = [] } = families.find((family) => family.name === name) ?? {}
  const found = samples.find(({ labels }) => state === undefined || labels.state === state)
  return found?.value ?? Number.NaN
}

/** Workers that answer with their numbers, unless they hang. */
function setup(count: number) {
  const pages = new WorkerPages()
  const workers = Array.from({ length: count }, (_, id) => ({ id, requests: 10, hangs: false }))
  for (const worker of workers) {
    pages.add({
      id: worker.id,
      send({ tidegate, id }) {
        if (worker.hangs || tidegate !== 'page-wanted') return
        const families = pageOf(worker.requests, 1)
        queueMicrotask(() => pages.onMessage(worker.id, { tidegate: 'page', id, families }))
      },
    })
  }
  return { pages, workers }
}

test('adds up the numbers of all workers', async () => {
  const { pages } = setup(3)
  const page = await pages.read()
  expect(sampleOf(page, 'requests_total')).toBe(30)
  expect(sampleOf(page, 'connections')).toBe(3)
  expect(sampleOf(page, 'tidegate_workers', 'answered')).toBe(3)
})

test('a worker that hangs counts with its last numbers and delays a page by 500 ms', async () => {
  const { pages, workers } = setup(2)
  await pages.read()
  const [first, second] = workers
  if (first === undefined || second === undefined) throw new Error('no workers')
  first.hangs = true
  second.requests = 25
  const reading = pages.read()
  await vi.advanceTimersByTimeAsync(499)
  let isRead = false
  void reading.then(() => {
    isRead = true
  })
  await vi.advanceTimersByTimeAsync(0)
  expect(isRead).toBe(false)
  await vi.advanceTimersByTimeAsync(1)
  const page = await reading
  expect(sampleOf(page, 'requests_total')).toBe(35)
  expect(sampleOf(page, 'tidegate_workers', 'silent')).toBe(1)
})

test('totals of ended workers stay, their gauges do not', async () => {
  const { pages, workers } = setup(2)
  await pages.read()
  for (const { id } of workers) pages.remove(id)
  pages.add({
    id: 9,
    send: ({ id }) => pages.onMessage(9, { tidegate: 'page', id, families: pageOf(1, 1) }),
  })
  const page = await pages.read()
  expect(sampleOf(page, 'requests_total')).toBe(21)
  expect(sampleOf(page, 'connections')).toBe(1)
})

test('a worker that ends while it is asked does not delay the page', async () => {
  const { pages, workers } = setup(2)
  const [first] = workers
  if (first === undefined) throw new Error('no workers')
  await pages.read()
  first.hangs = true
  const reading = pages.read()
  pages.remove(first.id)
  expect(sampleOf(await reading, 'requests_total')).toBe(20)
})

test('a worker serves the page of all, and its own if the supervisor is silent', async () => {
  const sent: PageMessage[] = []
  let receive: (message: unknown) => void = () => undefined
  const page = new WorkerPage({
    send(message, done = () => undefined) {
      sent.push(message)
      done()
    },
    onMessage: (listener) => {
      receive = listener
    },
  })
  const read = page.ofAll(async () => pageOf(7, 1))
  const reading = read()
  receive({ tidegate: 'page', id: 0, families: pageOf(50, 2) })
  expect(sampleOf(await reading, 'requests_total')).toBe(50)
  const alone = read()
  await vi.advanceTimersByTimeAsync(2_000)
  expect(sampleOf(await alone, 'requests_total')).toBe(7)
  receive({ tidegate: 'page-wanted', id: 5 })
  await vi.advanceTimersByTimeAsync(0)
  expect(sent.at(-1)).toMatchObject({ tidegate: 'page', id: 5 })
  await page.finish()
  expect(sent.at(-1)).toMatchObject({ tidegate: 'page', id: -1 })
})
