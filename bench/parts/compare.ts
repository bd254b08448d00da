/**
 * A comparison that means something on a noisy machine: ours and the peer take turns, several
 * rounds, and what is printed is the ratio of their medians. Absolute figures are only for scale.
 */

export interface Contender {
  readonly name: string
  /** Runs one round and tells operations per second. */
  run(): Promise<number>
}

export interface Comparison {
  readonly title: string
  readonly ours: Contender
  readonly peer: Contender
  /** What is aimed at: ours at least this many times the peer. */
  readonly ratioMin?: number
  readonly rounds?: number
}

/** The first round warms both up and is not counted. */
const ROUNDS_DEFAULT = 7

export async function compare(comparison: Comparison): Promise<number> {
  const { title, ours, peer, ratioMin, rounds = ROUNDS_DEFAULT } = comparison
  const results: Array<{ ours: number; peer: number }> = []
  for (let round = 0; round <= rounds; round++) {
    const result = { ours: await ours.run(), peer: await peer.run() }
    if (round > 0) results.push(result)
  }
  const ratios = results.map((result) => result.ours / result.peer)
  const ratio =
    median(results.map((result) => result.ours)) / median(results.map(({ peer }) => peer))
  const verdict = ratio >= (ratioMin ?? 0) ? 'met' : 'missed'
  const aim = ratioMin === undefined ? '' : `, aim ${ratioMin}: ${verdict}`
  console.log(title)
  console.log(`  ${ours.name.padEnd(36)} ${perSecond(results.map((result) => result.ours))}`)
  console.log(`  ${peer.name.padEnd(36)} ${perSecond(results.map((result) => result.peer))}`)
  const spread = `${Math.min(...ratios).toFixed(2)} to ${Math.max(...ratios).toFixed(2)}`
  console.log(`  ratio ${ratio.toFixed(2)} (rounds: ${spread})${aim}\n`)
  return ratio
}

function perSecond(values: readonly number[]): string {
  return `${Math.round(median(values)).toLocaleString('en-US').padStart(12)} per second`
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN
}
