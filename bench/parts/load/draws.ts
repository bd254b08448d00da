/** Keys in the order of their requests, the same in every run. */

/** `count` keys in turn, all equally frequent. */
export function evenKeys(count: number): string[] {
  return Array.from({ length: count }, (_, at) => `user:${at}`)
}

/**
 * Keys drawn from `count` by Zipf's law: the second is 1/2^exponent as frequent as the first, the
 * third 1/3^exponent.
 */
export function zipfKeys(count: number, exponent: number, draws: number): string[] {
  const sums: number[] = []
  let sum = 0
  for (let rank = 1; rank <= count; rank++) {
    sum += rank ** -exponent
    sums.push(sum)
  }
  const random = sequence(1)
  return Array.from({ length: draws }, () => `user:${firstAtLeast(sums, random() * sum)}`)
}

function firstAtLeast(sorted: readonly number[], value: number): number {
  let low = 0
  let high = sorted.length - 1
  while (low < high) {
    const middle = (low + high) >> 1
    if ((sorted[middle] as number) < value) low = middle + 1
    else high = middle
  }
  return low
}

/** Numbers from 0 up to 1 by mulberry32, which is short and good enough to draw keys. */
export function sequence(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
