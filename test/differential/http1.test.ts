/**
 * The gateway, node:http and nginx get the same bytes. Each request that the gateway passes on must
 * be one that the other servers read too: the same method, path and body, in the same order. The
 * gateway may refuse more. Everything else needs an explanation in explained-http1.ts.
 */

import { expect, onTestFinished, test } from 'vitest'
import { seed, sizes } from '../support/suite.ts'
import { type ByteStream, byteStreams } from './byte-streams.ts'
import { compareAll, FUZZ_MS_MAX, isSame } from './compare.ts'
import { explanations } from './explained-http1.ts'
import { converse, type Lane, type Outcome, type SeenRequest, startLanes } from './http1-servers.ts'

/** Connections at a time to each server. */
const LANES = 16

async function compare(lane: Lane, { pieces }: ByteStream, quietMs: number) {
  const [gateway, node, nginx] = await Promise.all([
    converse(lane.gateway, pieces, quietMs),
    converse(lane.node, pieces, quietMs),
    lane.nginx && converse(lane.nginx, pieces, quietMs),
  ])
  const text = pieces.join('')
  const reasons = [
    ...reasonsFor('node', text, gateway, node),
    ...(nginx === undefined ? [] : reasonsFor('nginx', text, gateway, nginx)),
  ]
  const { length: passed } = gateway.seen
  return { passed, reasons, problems: problemsOf(gateway), outcomes: { gateway, node, nginx } }
}

/** The reasons for differences; undefined for one without an explanation. */
function reasonsFor(server: 'node' | 'nginx', text: string, gateway: Outcome, other: Outcome) {
  if (isWithin(gateway.seen, other.seen)) return []
  const found = explanations.find((one) => {
    return (one.server === server || one.server === 'both') && one.fits({ text, gateway, other })
  })
  return [found && `${server}: ${found.name}`]
}

/** Each request of the upstream has a response, and the gateway itself does not fail. */
function problemsOf({ seen, statuses }: Outcome): string[] {
  const accepted = statuses.filter((status) => status < 300).length
  const failed = statuses.filter((status) => [500, 502, 503, 504].includes(status))
  return [
    ...(accepted === seen.length ? [] : ['requests and responses differ in number']),
    ...failed.map((status) => `status ${status}`),
  ]
}

function isWithin(requests: readonly SeenRequest[], others: readonly SeenRequest[]): boolean {
  let at = 0
  return requests.every((request) => {
    while (at < others.length && !isSame(request, others[at] as SeenRequest)) at += 1
    at += 1
    return at <= others.length
  })
}

test(
  'the gateway passes on only what node:http and nginx read in the same bytes',
  async () => {
    const lanes = await startLanes(LANES, onTestFinished)
    const found = await compareAll(lanes, byteStreams(seed), compare, sizes.http1FuzzMs)
    const { inputs, passed, explained } = found
    const others = lanes[0]?.nginx === undefined ? 'node:http' : 'node:http and nginx'
    console.info(`seed ${seed}, ${others}: ${inputs} streams, ${passed} requests`, explained)
    expect(found.wrong.slice(0, 1)).toEqual([])
    expect(inputs).toBeGreaterThan(10)
  },
  FUZZ_MS_MAX,
)
