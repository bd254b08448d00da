/** The memory of keys in Redis and in a process, from a thousand to a million keys. */

import type { Redis } from 'ioredis'
import type { Run } from '../../harness/part.ts'
import { keyContenders, PEER } from './contenders.ts'
import { type KeysWeight, type ProcessWeight, processContenders, weighInProcess } from './keys.ts'
import { type RedisWeight, weighInRedis } from './redis-keys.ts'

interface Weighed<Weight> {
  readonly name: string
  readonly isOurs: boolean
  readonly weight: Weight
}

export async function keysInRedis(run: Run, client: Redis, info: Redis): Promise<void> {
  const sizes = sizesOf(run)
  const weighed: Weighed<RedisWeight[]>[] = []
  for (const { name, isOurs, on } of keyContenders) {
    run.progress(`keys in Redis: ${name}`)
    weighed.push({ name, isOurs, weight: await weighInRedis(await on(client), sizes, info) })
  }
  run.table({
    name: 'cost-keys-redis',
    title: 'Bytes of a key in Redis, after one request each',
    columns: [...sizeColumns(sizes), { name: 'MEMORY USAGE of one', digits: 0 }],
    rows: weighed.map(({ name, isOurs, weight }) => ({
      name,
      isOurs,
      cells: [...weight.map(perKey), weight.at(-1)?.usageBytes],
    })),
  })
  const place = { name: 'redis', what: 'bytes of a key in Redis' }
  growth(run, place, weighed)
}

export async function keysInProcess(run: Run): Promise<void> {
  const sizes = sizesOf(run)
  const weighed: Weighed<ProcessWeight>[] = []
  for (const name of processContenders) {
    run.progress(`keys in a process: ${name}`)
    const isOurs = name.startsWith('Tidegate')
    weighed.push({ name, isOurs, weight: await weighInProcess(name, sizes) })
  }
  run.table({
    name: 'cost-keys-process',
    title: 'Bytes of a key in the memory of a process, after one request each',
    columns: [
      ...sizeColumns(sizes),
      { name: 'process with all, MB', digits: 0 },
      { name: 'more than before, MB', digits: 0 },
    ],
    rows: weighed.map(({ name, isOurs, weight }) => ({
      name,
      isOurs,
      cells: [
        ...weight.weights.map(perKey),
        weight.residentBytes / 2 ** 20,
        weight.residentMoreBytes / 2 ** 20,
      ],
    })),
  })
  const place = { name: 'process', what: 'bytes of a key in a process' }
  growth(
    run,
    place,
    weighed.map((one) => ({ ...one, weight: one.weight.weights })),
  )
}

function sizesOf(run: Run): number[] {
  return run.isQuick ? [1_000, 10_000] : [1_000, 10_000, 100_000, 1_000_000]
}

function sizeColumns(sizes: readonly number[]) {
  return sizes.map((keys) => ({ name: `${keys.toLocaleString('en-US')} keys`, digits: 0 }))
}

function perKey({ bytes, keys }: KeysWeight): number {
  return bytes / keys
}

/** Reports the comparison at the largest size, and the chart over all sizes. */
function growth(
  run: Run,
  place: { readonly name: string; readonly what: string },
  weighed: readonly Weighed<readonly KeysWeight[]>[],
): void {
  const largest = (wanted: string) => {
    const last = weighed.find(({ name }) => name === wanted)?.weight.at(-1)
    return last === undefined ? Number.NaN : perKey(last)
  }
  const keys = weighed[0]?.weight.at(-1)?.keys.toLocaleString('en-US')
  run.compared({
    name: `cost-keys-${place.name}`,
    what: `${place.what}, ${keys} keys`,
    ours: 'Tidegate, tokenBucket',
    peer: PEER,
    unit: 'bytes per key',
    rounds: [{ ours: largest('Tidegate, tokenBucket'), peer: largest(PEER) }],
    isLessBetter: true,
    reason: 'Keys of ours are digests of one length, 28 bytes; these keys are short by themselves.',
  })
  run.chart({
    name: `keys-${place.name}`,
    title: place.name === 'redis' ? 'Memory of Redis by keys' : 'Memory of a process by keys',
    kind: 'lines',
    xLabel: 'keys',
    yLabel: 'MB',
    isLogX: true,
    isLogY: true,
    series: weighed.map(({ name, isOurs, weight }) => ({
      name,
      isOurs,
      points: weight.map(({ keys: x, bytes }) => ({ x, y: bytes / 2 ** 20 })),
    })),
  })
}
