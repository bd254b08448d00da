/**
 * Compares the gateway with node:http, each with a connection that carries the same bytes. The
 * upstream gets only requests that node reads too. The gateway may refuse more, but no valid
 * request.
 */

import { describe, expect, onTestFinished, test } from 'vitest'
import { canonicalTarget } from '../../packages/server/src/gateway/canonical-path.ts'
import { startTestGateway } from '../e2e/gateway/test-gateway.ts'
import { sizes } from '../support/suite.ts'
import { type RecordingUpstream, startRecordingUpstream } from './recording-upstream.ts'
import { converse, NodeReader, type Outcome, type ReadRequest } from './request-outcome.ts'
import type { RecordedRequest } from './request-parser.ts'
import { type RequestShape, requestShapes } from './request-shapes.ts'

const SEED = 20_260_301
const SHAPES = sizes.comparedShapes
/** Each lane has a gateway of its own, so that upstream requests can be attributed. */
const LANES = 12
/** Enough for a busy machine. */
const TEST_MS_MAX = 300_000

/**
 * Statuses with which the gateway may refuse a request that node reads; 0 is a closed connection.
 */
const stricterStatuses: ReadonlySet<number> = new Set([0, 400, 405, 417, 501, 505])

interface Lane {
  readonly reader: NodeReader
  readonly upstream: RecordingUpstream
  readonly port: number
}

async function startLane(): Promise<Lane> {
  let answered = 0
  const upstream = await startRecordingUpstream(({ method }) => {
    const fields = `x-seen: ${answered++}\r\ncontent-length: 2`
    return `HTTP/1.1 200 OK\r\n${fields}\r\n\r\n${method === 'HEAD' ? '' : 'ok'}`
  })
  const upstreams = { api: { targets: [upstream.url], retries: 0 } }
  const { port } = await startTestGateway({ upstreams })
  const reader = new NodeReader()
  onTestFinished(() => reader.close())
  return { reader, upstream, port }
}

interface Comparison {
  /** Valid shapes whose requests were all answered by the upstream. */
  accepted: number
  acceptedDamaged: number
  /** Shapes of which node reads more than the gateway forwards, by the gateway's status. */
  readonly stricter: Map<number, number>
  /** Shapes from which both read no request. */
  refused: number
  readonly wrong: unknown[]
}

async function compareAll(shapes: readonly RequestShape[]): Promise<Comparison> {
  const found: Comparison = {
    accepted: 0,
    acceptedDamaged: 0,
    stricter: new Map(),
    refused: 0,
    wrong: [],
  }
  let next = 0
  const lanes = await Promise.all(Array.from({ length: LANES }, startLane))
  const compareMany = async ({ reader, upstream, port }: Lane) => {
    for (let shape = shapes[next++]; shape !== undefined; shape = shapes[next++]) {
      const { pieces } = shape
      const node = await reader.read(pieces)
      const before = upstream.requests.length
      const outcome = await converse({ port, pieces, answers: node.length })
      compare(shape, node, { outcome, seen: upstream.requests.slice(before), before }, found)
    }
  }
  await Promise.all(lanes.map(compareMany))
  found.wrong.push(...lanes.flatMap(({ upstream }) => upstream.ambiguities))
  return found
}

interface Passed {
  readonly outcome: Outcome
  /** The requests that the upstream got. */
  readonly seen: readonly RecordedRequest[]
  /** The number of requests that it got before. */
  readonly before: number
}

function compare(
  shape: RequestShape,
  node: readonly ReadRequest[],
  passed: Passed,
  found: Comparison,
): void {
  const { outcome, seen } = passed
  const problems = problemsOf(node, passed)
  const isWhole = seen.length === shape.count && outcome.answers.length === shape.count
  if (!shape.isDamaged && !isWhole) problems.push('a valid request is not accepted')
  if (problems.length > 0) {
    found.wrong.push({ problems, pieces: shape.pieces, node, seen, outcome })
  }
  if (!shape.isDamaged) found.accepted += isWhole ? 1 : 0
  else if (seen.length > 0) found.acceptedDamaged += 1
  else if (node.length === 0) found.refused += 1
  if (seen.length >= node.length) return
  const status = outcome.answers.find((answer) => answer.status !== 200)?.status ?? 0
  found.stricter.set(status, (found.stricter.get(status) ?? 0) + 1)
}

function problemsOf(requests: readonly ReadRequest[], { outcome, seen, before }: Passed): string[] {
  const problems: string[] = []
  const places = placesAmong(requests, seen)
  if (places.includes(-1)) problems.push('the upstream gets what node does not read')
  if (seen.length > requests.length) problems.push('the upstream gets more than node reads')
  if (outcome.isStuck) problems.push('there is neither an answer nor an end')
  const answered = outcome.answers.flatMap(({ head }) => /x-seen: (\d+)/.exec(head)?.[1] ?? [])
  const order = answered.map((number) => places[Number(number) - before] ?? -1)
  const isInOrder = order.every((place, at) => at === 0 || place > (order[at - 1] as number))
  if (!isInOrder) problems.push('answers are not in the order of requests')
  if (outcome.answers.some(({ status }) => [500, 502, 503, 504].includes(status))) {
    problems.push('the gateway fails')
  }
  return problems
}

/** The index of each request among those that node read; -1 if there is none. */
function placesAmong(requests: readonly ReadRequest[], seen: readonly RecordedRequest[]) {
  const taken = new Set<number>()
  return seen.map((one) => {
    const at = requests.findIndex((other, place) => !taken.has(place) && isSame(one, other))
    taken.add(at)
    return at
  })
}

function isSame(seen: RecordedRequest, read: ReadRequest): boolean {
  const host = read.headers.host ?? (read.version === '1.0' ? 'localhost' : '')
  const target = canonicalTarget(read.url, host)
  if (typeof target === 'string' || host === '') return false
  if (seen.method !== read.method || seen.target !== target.path + target.query) return false
  return seen.body === read.body && seen.fields.every((field) => isFieldOf(read, field))
}

/** True if the field is the client's, or one that the gateway sets. */
function isFieldOf({ headers }: ReadRequest, [name, value]: readonly [string, string]): boolean {
  if (!name.startsWith('x-') || /^x-(forwarded-|(real-ip|request-id)$)/.test(name)) return true
  const read = headers[name]
  return typeof read === 'string' && read.trim() === value
}

describe('requests, valid and damaged', () => {
  test(
    'reach the upstream as node:http reads them, or not at all',
    async () => {
      const found = await compareAll([...requestShapes(SEED, SHAPES)])
      expect(found.wrong.slice(0, 5)).toEqual([])
      expect(found.accepted).toBe(SHAPES / 3)
      expect(found.acceptedDamaged).toBeGreaterThan(SHAPES / 10)
      expect(found.refused).toBeGreaterThan(SHAPES / 5)
      expect([...found.stricter.keys()].filter((status) => !stricterStatuses.has(status))).toEqual(
        [],
      )
      const stricter = [...found.stricter.values()].reduce((sum, count) => sum + count, 0)
      expect(stricter).toBeLessThan(SHAPES / 5)
    },
    TEST_MS_MAX,
  )
})
