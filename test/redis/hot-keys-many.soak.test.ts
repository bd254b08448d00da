import { expect, it } from 'vitest'
import { startRedis } from '../support/servers/redis.ts'
import { memoryOfKeys } from './hot-memory.ts'

/** Far more keys than a process tracks. */
const KEYS = 300_000

const MEGABYTE = 2 ** 20

it('many keys that come once take no memory, and do not hide the hot one', async () => {
  const server = await startRedis()
  const { heapBytes, seconds, hottest } = await memoryOfKeys(server.url, KEYS)
  await server.stop()
  const megabytes = (heapBytes / MEGABYTE).toFixed(1)
  console.log(`${KEYS} keys in ${seconds.toFixed(1)} s: the heap has grown by ${megabytes} MB`)
  expect(hottest).toBe('hot')
  expect(heapBytes).toBeLessThan(5 * MEGABYTE)
})
