/** Compares servers on many inputs, several at a time, and counts the reasons for differences. */

import { setTimeout as sleep } from 'node:timers/promises'
import { canonicalTarget } from '../../packages/server/src/gateway/canonical-path.ts'
import type { Lane, SeenRequest } from './http1-servers.ts'

/** All servers run on this machine and answer within a millisecond or two. */
const QUIET_MS = 300

/** A difference that disappears with this timeout was caused by timing. */
const QUIET_MS_LONG = 5_000

/**
 * How often an input is compared again, with nothing beside it: a busy machine can delay the same
 * frame twice, and a difference that the input causes is there every time.
 */
const ATTEMPTS_ALONE = 3

/** Enough to find the cause; further differences usually share it. */
const WRONG_MAX = 5

/** The longest run that TIDEGATE_FUZZ_SECONDS can set. */
export const FUZZ_MS_MAX = 3_600_000

export interface Comparison {
  /** Requests that the gateway passed on. */
  readonly passed: number
  /** Why another server differs; undefined if nothing explains it. */
  readonly reasons: readonly (string | undefined)[]
  /** Errors in the outcome of the gateway alone. */
  readonly problems: readonly string[]
}

export interface Found {
  inputs: number
  passed: number
  readonly explained: Record<string, number>
  readonly wrong: object[]
}

type Compare<Input> = (lane: Lane, input: Input, quietMs: number) => Promise<Comparison>

/** Compares each input on one of the lanes, until the time is over or there are too many errors. */
export async function compareAll<Input extends object>(
  lanes: readonly Lane[],
  inputs: Iterator<Input>,
  compare: Compare<Input>,
  durationMs: number,
): Promise<Found> {
  const found: Found = { inputs: 0, passed: 0, explained: {}, wrong: [] }
  const suspects: Input[] = []
  const endMs = performance.now() + durationMs
  const work = async (lane: Lane) => {
    while (performance.now() < endMs && suspects.length < WRONG_MAX) {
      const input: Input = inputs.next().value
      let result = await compare(lane, input, QUIET_MS)
      if (!isRight(result)) {
        // Wait until no request of the first attempt is in flight.
        await sleep(QUIET_MS_LONG)
        result = await compare(lane, input, QUIET_MS_LONG)
      }
      found.inputs += 1
      found.passed += result.passed
      for (const reason of result.reasons) {
        if (reason !== undefined) found.explained[reason] = (found.explained[reason] ?? 0) + 1
      }
      if (!isRight(result)) suspects.push(input)
    }
  }
  await Promise.all(lanes.map(work))
  for (const input of suspects) {
    const result = await compareAlone(lanes[0] as Lane, input, compare)
    if (!isRight(result)) found.wrong.push({ ...printable(input), ...result })
  }
  return found
}

/** Bytes as one line of base64, so that a report of a failure shows the rest of it, too. */
function printable(input: object): object {
  return Object.fromEntries(
    Object.entries(input).map(([name, value]) => {
      return [name, value instanceof Uint8Array ? Buffer.from(value).toString('base64') : value]
    }),
  )
}

/** The first result without a difference, or the last one. */
async function compareAlone<Input>(
  lane: Lane,
  input: Input,
  compare: Compare<Input>,
): Promise<Comparison> {
  for (let attempt = 1; ; attempt += 1) {
    await sleep(QUIET_MS_LONG)
    const result = await compare(lane, input, QUIET_MS_LONG)
    if (isRight(result) || attempt === ATTEMPTS_ALONE) return result
  }
}

function isRight({ reasons, problems }: Comparison): boolean {
  return problems.length === 0 && !reasons.includes(undefined)
}

/** The gateway passes the canonical path on, and the others the one that was sent. */
export function isSame(passed: SeenRequest, other: SeenRequest): boolean {
  const target = canonicalTarget(other.target, other.host === '' ? 'localhost' : other.host)
  if (typeof target === 'string') return false
  const isSameTarget = passed.target === target.path + target.query
  return isSameTarget && passed.method === other.method && passed.body === other.body
}
