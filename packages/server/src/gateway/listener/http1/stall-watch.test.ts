import { PassThrough } from 'node:stream'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { LOOK_INTERVAL_MS, SlowClients } from '../slow-clients.ts'
import { StallWatch } from './stall-watch.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] }))
afterEach(() => void vi.useRealTimers())

/** A stream stands for a socket: what is written stays until somebody reads. */
function stalled(queuedBytes: () => number | undefined = () => undefined) {
  const stream = new PassThrough({ highWaterMark: 16 })
  const slowClients = new SlowClients(async () => ({ of: queuedBytes }))
  const watch = new StallWatch(stream as never, slowClients)
  const fill = () => {
    while (stream.write('0123456789'));
    watch.watch()
  }
  const take = async () => {
    const drained = new Promise((resolve) => stream.once('drain', resolve))
    while (stream.read() !== null) await new Promise(setImmediate)
    await drained
  }
  const look = async (times: number) => {
    for (let at = 0; at < times; at++) await vi.advanceTimersByTimeAsync(LOOK_INTERVAL_MS)
  }
  return { stream, fill, take, look }
}

describe('a connection of which nothing is taken', () => {
  it('is given up at the third look', async () => {
    const { stream, fill, look } = stalled()
    fill()
    await look(2)
    expect(stream.destroyed).toBe(false)
    await look(1)
    expect(stream.destroyed).toBe(true)
  })

  it('has a minute where it was slow before, and not stopped', async () => {
    const { stream, fill, take, look } = stalled()
    fill()
    await look(2)
    await take()
    fill()
    await look(11)
    expect(stream.destroyed).toBe(false)
    await look(1)
    expect(stream.destroyed).toBe(true)
  })

  it('has proved nothing by taking at once what fits into buffers', async () => {
    const { stream, fill, take, look } = stalled()
    fill()
    await take()
    fill()
    await look(3)
    expect(stream.destroyed).toBe(true)
  })

  it('is kept while the system sends on it, and for a minute after that', async () => {
    let queued = 4_000_000
    const { stream, fill, look } = stalled(() => queued)
    fill()
    for (let at = 0; at < 20; at++) {
      await look(1)
      queued -= 100_000
    }
    await look(12)
    expect(stream.destroyed).toBe(false)
    await look(1)
    expect(stream.destroyed).toBe(true)
  })

  it('is given up where that is less than anybody would wait for', async () => {
    let queued = 4_000_000
    const { stream, fill, look } = stalled(() => queued)
    fill()
    for (let at = 0; at < 3; at++) {
      await look(1)
      queued -= 100
    }
    expect(stream.destroyed).toBe(true)
  })
})
