/**
 * Makes a request of our own out of what node:http or node:http2 has read. What two servers could
 * understand differently is found here, and refused by a stage like everything else.
 */

import { clientIp, ipKey, parseIp } from 'tidegate/http'
import type { GatewaySection } from '../../policy/gateway-section.ts'
import { type CanonicalTarget, canonicalTarget } from '../canonical-path.ts'
import { fieldOf, type GatewayResponse } from '../message.ts'
import type { OwnedNames } from '../owned-names.ts'
import { refusal } from '../refusal.ts'
import { cleanHead, isHost, type RequestHead } from '../request-head.ts'
import type { Connection } from './connections.ts'
import { type Incoming, isHttp1, NodeRequest, type Outgoing } from './node-request.ts'
import type { SlowClients } from './slow-clients.ts'

export interface ReadOptions {
  /** Whether the client waits for a word before it sends its body. */
  readonly isWaiting: boolean
  /** The protocol to switch to. */
  readonly upgrade: string | undefined
}

export type ReadRequest = (
  incoming: Incoming,
  outgoing: Outgoing,
  connection: Connection,
  options: ReadOptions,
) => NodeRequest

/** What HTTP/1.0 does not have to say. */
const HOST_DEFAULT = 'localhost'

/** Neither is for a resource behind a proxy: one opens tunnels, one echoes what it is sent. */
const refusedMethods: ReadonlySet<string> = new Set(['CONNECT', 'TRACE'])

/** For HTTP/1 the parser finds it out itself. */
const largeHead = { status: 431, detail: 'the header fields of the request are too large' }

const nothing: RequestHead = {
  headers: [],
  forwarded: [],
  host: '',
  bodyBytes: undefined,
  isChunked: false,
}
const nowhere: CanonicalTarget = { path: '', query: '' }

/** `owned` are names of header fields that the gateway reads or sets. */
export function requestReader(
  section: GatewaySection,
  owned: () => OwnedNames,
  slowClients: SlowClients,
): ReadRequest {
  const ipOf = ipReader(section)
  const clientOf = clientReader(section)
  const limits = {
    bytesMax: section.bodyBytesMax,
    bytesPerSecondMin: section.bodyRateMin,
    arrivalMsMax: section.timeouts.request,
    slowClients,
    held: { bytes: 0 },
  }
  return (incoming, outgoing, connection, { isWaiting, upgrade }) => {
    const raw = incoming.rawHeaders
    const isLarge = !isHttp1(incoming) && lengthOf(raw) > section.headerBytesMax
    const cleaned = isLarge ? largeHead : cleanHead(raw, owned())
    const head = 'status' in cleaned ? nothing : cleaned
    const host = hostOf(head, incoming)
    const hasBody = isHttp1(incoming) ? hasBodyBy(head) : !incoming.stream.endAfterHeaders
    const target =
      host === undefined ? 'Host is missing' : canonicalTarget(incoming.url ?? '', host)
    const problem =
      'status' in cleaned
        ? refusal(cleaned.status, sentence(cleaned.detail))
        : problemOf(target, head, incoming, { hasBody, upgrade, bytesMax: limits.bytesMax })
    const ip = ipOf(connection, head)
    return new NodeRequest({
      incoming,
      outgoing,
      head,
      host: host ?? '',
      target: typeof target === 'string' ? nowhere : target,
      connection,
      ip,
      client: clientOf(ip, connection),
      upgrade,
      hasBody,
      isWaiting,
      limits,
      problem,
    })
  }
}

function lengthOf(raw: readonly string[]): number {
  return raw.reduce((sum, text) => sum + text.length, 0)
}

function problemOf(
  target: CanonicalTarget | string,
  { isChunked, bodyBytes }: RequestHead,
  incoming: Incoming,
  {
    hasBody,
    upgrade,
    bytesMax,
  }: { hasBody: boolean; upgrade: string | undefined; bytesMax: number },
): GatewayResponse | undefined {
  if (typeof target === 'string') return refusal(400, sentence(target))
  if (refusedMethods.has(incoming.method ?? '')) {
    return refusal(405, 'This method is not served here.', ['allow', 'GET, HEAD, POST, PUT'])
  }
  if (isChunked && (bodyBytes !== undefined || incoming.httpVersion === '1.0')) {
    return refusal(400, 'The length of the body is told in two ways.')
  }
  if (upgrade !== undefined && (hasBody || incoming.method !== 'GET')) {
    return refusal(400, 'A request to switch protocols is a GET without a body.')
  }
  if (bodyBytes !== undefined && bodyBytes > bytesMax) {
    return refusal(413, `A body has at most ${bytesMax} bytes here.`)
  }
  return undefined
}

/** HTTP/2 may say it twice, but not two different ones. */
function hostOf({ host }: RequestHead, incoming: Incoming): string | undefined {
  if (isHttp1(incoming)) {
    if (host !== '') return host
    return incoming.httpVersion === '1.0' ? HOST_DEFAULT : undefined
  }
  const { authority } = incoming
  if (authority === '' || authority === undefined) return host === '' ? undefined : host
  if (!isHost(authority)) return undefined
  return host === '' || host.toLowerCase() === authority.toLowerCase() ? authority : undefined
}

function hasBodyBy({ isChunked, bodyBytes }: RequestHead): boolean {
  return isChunked || (bodyBytes !== undefined && bodyBytes > 0)
}

interface Hop {
  readonly connection: Connection
  readonly head: RequestHead
}

/** Unmasked: how many bits of an IPv6 address count is for the limits to say. */
function ipReader({ trustProxy }: GatewaySection) {
  if (trustProxy === 0) return (connection: Connection) => connection.peer
  const find = clientIp<Hop>({ trustProxy, ipv6Prefix: 128 }, 'gateway', {
    remoteAddress: ({ connection }) => connection.peer,
    forwardedFor: ({ head }) => fieldOf(head.forwarded, 'x-forwarded-for'),
  })
  return (connection: Connection, head: RequestHead) =>
    find({ connection, head })?.replace('/128', '')
}

/** Whoever has one IPv6 address has a network of them. */
function clientReader({ ipv6Prefix }: GatewaySection) {
  return (ip: string | undefined, connection: Connection): string => {
    if (ip === connection.peer) return connection.client
    const parsed = ip === undefined ? undefined : parseIp(ip)
    return parsed === undefined ? connection.client : ipKey(parsed, ipv6Prefix)
  }
}

function sentence(detail: string): string {
  return `${detail.charAt(0).toUpperCase()}${detail.slice(1)}.`
}
