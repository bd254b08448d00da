import { PassThrough } from 'node:stream'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { LOOK_INTERVAL_MS, SlowClients } from '../slow-clients.ts'
import { StallWatch } from './stall-watch.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] }))
afterEach(() => void vi.useRealTimers())

/** A stream stands for a socket: what is written stays until somebody reads. */
function stalled() {
  const stream = new PassThrough({ highWaterMark: 16 })
  const watch = new StallWatch(stream as never, new SlowClients())
  const fill = () => {
    while (stream.write('0123456789'));
    watch.watch()
  }
  const take = async () => {
    const drained = new Promise((resolve) => stream.once('drain', resolve))
    while (stream.read() !== null) await new Promise(setImmediate)
    await drained
  }
  const look = (times: number) => vi.advanceTimersByTime(times * LOOK_INTERVAL_MS)
  return { stream, fill, take, look }
}

describe('a connection of which nothing is taken', () => {
  it('is given up at the third look', () => {
    const { stream, fill, look } = stalled()
    fill()
    look(2)
    expect(stream.destroyed).toBe(false)
    look(1)
    expect(stream.destroyed).toBe(true)
  })

  it('has a minute where it was slow before, and not stopped', async () => {
    const { stream, fill, take, look } = stalled()
    fill()
    look(2)
    await take()
    fill()
    look(11)
    expect(stream.destroyed).toBe(false)
    look(1)
    expect(stream.destroyed).toBe(true)
  })

  it('has proved nothing by taking at once what fits into buffers', async () => {
    const { stream, fill, take, look } = stalled()
    fill()
    await take()
    fill()
    look(3)
    expect(stream.destroyed).toBe(true)
  })
})
