/**
 * Makes a `ClientRequest` of the head that has arrived. Requests that two servers could read
 * differently are detected here; a stage refuses them, so that they are logged.
 */

import { clientIp, ipKey, parseIp } from 'tidegate/http'
import type { GatewaySection } from '../../policy/schema/listener-section.ts'
import { type CanonicalTarget, canonicalTarget } from '../canonical-path.ts'
import { fieldOf } from '../header-list.ts'
import type { GatewayResponse, HttpVersion } from '../message.ts'
import { refusal } from '../refusal.ts'
import { type BadHead, cleanHead, isHost, type RequestHead } from '../request-head.ts'
import type { ReservedHeaders } from '../reserved-headers.ts'
import type { Channel } from './channel.ts'
import { ClientRequest } from './client-request.ts'
import type { Connection } from './connections.ts'
import { isMethod } from './methods.ts'
import { BUFFERED_BYTES_TOTAL_MAX } from './request-body.ts'
import type { SlowClients } from './slow-clients.ts'

/** The head of a request as it was received. */
export interface WireRequest {
  readonly method: string
  readonly target: string
  /** Name, value, name, value. */
  readonly fields: readonly string[]
  readonly version: HttpVersion
  /** Only HTTP/2 has it apart from the fields. */
  readonly authority: string | undefined
  /** HTTP/1 derives it from the fields. */
  readonly hasBody: boolean | undefined
}

export interface ReadRequest {
  /** Reads the fields, or returns why they are refused. */
  head(wire: WireRequest): RequestHead | BadHead
  request(
    wire: WireRequest,
    head: RequestHead | BadHead,
    channel: Channel,
    connection: Connection,
  ): ClientRequest
}

/** The host of an HTTP/1.0 request, which needs none. */
const HOST_DEFAULT = 'localhost'

/** Neither is for a resource behind a gateway: one opens tunnels, one echoes the request. */
const refusedMethods: ReadonlySet<string> = new Set(['CONNECT', 'TRACE'])

/** HTTP/1 detects it before the fields are read. */
const largeHead = { status: 431, detail: 'the header fields of the request are too large' }

const emptyHead: RequestHead = {
  headers: [],
  forwarded: [],
  host: '',
  bodyBytes: undefined,
  isChunked: false,
  connection: '',
  expect: '',
  upgrade: '',
}
const noTarget: CanonicalTarget = { path: '', query: '' }

export function requestReader(
  section: GatewaySection,
  reserved: () => ReservedHeaders,
  slowClients: SlowClients,
): ReadRequest {
  const ipOf = ipReader(section)
  const clientOf = clientReader(section)
  const limits = {
    bytesMax: section.bodyBytesMax,
    bytesPerSecondMin: section.bodyRateMin,
    arrivalMsMax: section.timeouts.request,
    slowClients,
    buffered: { bytes: 0, bytesMax: BUFFERED_BYTES_TOTAL_MAX },
  }
  const requestOf: ReadRequest['request'] = (wire, cleaned, channel, connection) => {
    const head = 'status' in cleaned ? emptyHead : cleaned
    const host = hostOf(head, wire)
    const hasBody = wire.hasBody ?? hasBodyBy(head)
    const upgrade = upgradeOf(head, wire)
    const target = host === undefined ? 'Host is missing' : canonicalTarget(wire.target, host)
    const problem =
      'status' in cleaned
        ? refusal(cleaned.status, sentence(cleaned.detail))
        : problemOf(target, head, wire, { hasBody, upgrade, bytesMax: limits.bytesMax })
    const ip = ipOf(connection, head)
    return new ClientRequest({
      method: wire.method,
      version: wire.version,
      head,
      host: host ?? '',
      target: typeof target === 'string' ? noTarget : target,
      channel,
      connection,
      ip,
      client: clientOf(ip, connection),
      upgrade,
      hasBody,
      isWaiting: hasBody && wire.version !== '1.0' && isContinue(head.expect),
      takesInterim: wire.version !== '1.0',
      limits,
      problem,
    })
  }
  return {
    head: ({ fields, version }) => {
      const isLarge = version === '2' && lengthOf(fields) > section.headerBytesMax
      return isLarge ? largeHead : cleanHead(fields, reserved())
    },
    request: requestOf,
  }
}

function lengthOf(raw: readonly string[]): number {
  return raw.reduce((sum, text) => sum + text.length, 0)
}

function problemOf(
  target: CanonicalTarget | string,
  { isChunked, bodyBytes, expect }: RequestHead,
  { method, version }: WireRequest,
  {
    hasBody,
    upgrade,
    bytesMax,
  }: { hasBody: boolean; upgrade: string | undefined; bytesMax: number },
): GatewayResponse | undefined {
  if (refusedMethods.has(method)) {
    return refusal(405, 'This method is not served here.', ['allow', 'GET, HEAD, POST, PUT'])
  }
  if (!isMethod(method)) return refusal(400, 'The method of the request is not known.')
  if (typeof target === 'string') return refusal(400, sentence(target))
  if (isChunked && (bodyBytes !== undefined || version === '1.0')) {
    return refusal(400, 'The length of the body is declared in two ways.')
  }
  // https://www.rfc-editor.org/rfc/rfc9110#section-10.1.1
  if (expect !== '' && version !== '1.0' && !isContinue(expect)) {
    return refusal(417, 'The only supported expectation is 100-continue.')
  }
  if (upgrade !== undefined && (hasBody || method !== 'GET')) {
    return refusal(400, 'A request to switch protocols is a GET without a body.')
  }
  if (bodyBytes !== undefined && bodyBytes > bytesMax) {
    return refusal(413, `A body has at most ${bytesMax} bytes here.`)
  }
  return undefined
}

/** HTTP/2 can have it twice, but not with two values. */
function hostOf({ host }: RequestHead, wire: WireRequest): string | undefined {
  if (wire.version === '1.0') return host === '' ? HOST_DEFAULT : host
  if (wire.version === '1.1') return host === '' ? undefined : host
  const { authority } = wire
  if (authority === '' || authority === undefined) return host === '' ? undefined : host
  if (!isHost(authority)) return undefined
  return host === '' || host.toLowerCase() === authority.toLowerCase() ? authority : undefined
}

/** Requests for other protocols, such as h2c, stay ordinary requests. */
function upgradeOf({ upgrade, connection }: RequestHead, wire: WireRequest): string | undefined {
  if (upgrade === '' || wire.version !== '1.1') return undefined
  if (!/(^|,)\s*upgrade\s*(,|$)/i.test(connection)) return undefined
  return upgrade.toLowerCase() === 'websocket' ? 'websocket' : undefined
}

function isContinue(expect: string): boolean {
  return expect !== '' && expect.toLowerCase() === '100-continue'
}

function hasBodyBy({ isChunked, bodyBytes }: RequestHead): boolean {
  return isChunked || (bodyBytes !== undefined && bodyBytes > 0)
}

interface Hop {
  readonly connection: Connection
  readonly head: RequestHead
}

/** The address is not masked: the limits decide how many bits of an IPv6 address count. */
function ipReader({ trustProxy }: GatewaySection) {
  if (trustProxy === 0) return (connection: Connection) => connection.peer
  const find = clientIp<Hop>({ trustProxy, ipv6Prefix: 128 }, 'gateway', {
    remoteAddress: ({ connection }) => connection.peer,
    forwardedFor: ({ head }) => fieldOf(head.forwarded, 'x-forwarded-for'),
  })
  return (connection: Connection, head: RequestHead) =>
    find({ connection, head })?.replace('/128', '')
}

/** A client with an IPv6 address usually has its whole network. */
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
