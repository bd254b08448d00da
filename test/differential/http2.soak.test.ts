/**
 * The gateway, node:http2 and nginx get the same frames. Each request that the gateway passes on
 * must be one that the other servers read too: the same method, path and body. The gateway may
 * refuse more, but no valid request. Everything else needs an explanation in explained-http2.ts.
 */

import { expect, onTestFinished, test } from 'vitest'
import { seed, sizes } from '../support/suite.ts'
import { compareAll, FUZZ_MS_MAX, isSame } from './compare.ts'
import { http2Explanations } from './explained-http2.ts'
import { type FrameSequence, frameSequences } from './frame-sequences.ts'
import type { Lane, SeenRequest } from './http1-servers.ts'
import { converseHttp2, type Http2Outcome, startHttp2Lanes } from './http2-servers.ts'

/** Connections at a time to each server. */
const LANES = 12

async function compare(lane: Lane, sequence: FrameSequence, quietMs: number) {
  const { bytes, notes } = sequence
  const [gateway, node, nginx] = await Promise.all([
    converseHttp2(lane.gateway, bytes, quietMs),
    converseHttp2(lane.node, bytes, quietMs),
    lane.nginx && converseHttp2(lane.nginx, bytes, quietMs),
  ])
  const reasons = [
    ...reasonsFor('node', sequence, gateway, node),
    ...(nginx === undefined ? [] : reasonsFor('nginx', sequence, gateway, nginx)),
  ]
  const { length: passed } = gateway.seen
  const isRefused = notes.length === 0 && passed < node.seen.length
  const problems = isRefused ? ['a valid request is refused'] : []
  return { passed, reasons, problems, outcomes: { gateway, node, nginx } }
}

/** The reasons for differences; undefined for one without an explanation. */
function reasonsFor(
  server: 'node' | 'nginx',
  sequence: FrameSequence,
  gateway: Http2Outcome,
  other: Http2Outcome,
) {
  if (isWithin(gateway.seen, other.seen)) return []
  const found = http2Explanations.find((one) => {
    return (
      (one.server === server || one.server === 'both') && one.fits({ sequence, gateway, other })
    )
  })
  return [found && `${server}: ${found.name}`]
}

/** Streams are handled concurrently, so their order is ignored. */
function isWithin(requests: readonly SeenRequest[], others: readonly SeenRequest[]): boolean {
  const rest = [...others]
  return requests.every((request) => {
    const at = rest.findIndex((other) => isSame(request, other))
    if (at >= 0) rest.splice(at, 1)
    return at >= 0
  })
}

test(
  'the gateway passes on only what node:http2 and nginx read in the same frames',
  async () => {
    const lanes = await startHttp2Lanes(LANES, onTestFinished)
    const found = await compareAll(lanes, frameSequences(seed), compare, sizes.http2FuzzMs)
    const { inputs, passed, explained } = found
    const others = lanes[0]?.nginx === undefined ? 'node:http2' : 'node:http2 and nginx'
    console.info(`seed ${seed}, ${others}: ${inputs} sequences, ${passed} requests`, explained)
    expect(found.wrong.slice(0, 1)).toEqual([])
    expect(inputs).toBeGreaterThan(10)
  },
  FUZZ_MS_MAX,
)
