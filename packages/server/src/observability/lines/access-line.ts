/**
 * The lines of the access log: JSON, or the combined format of Apache and nginx. They are ASCII:
 * everything else is escaped, and texts of clients are cut, so that nothing that a client sends can
 * end a line, close a quotation or reach a terminal. A line has less than 4,096 bytes, which is
 * what a pipe takes at once.
 */

import type { ClientAddress } from './client-address.ts'

export interface AccessRecord {
  readonly startedMs: number
  readonly durationMs: number
  readonly requestId: string | undefined
  readonly traceId: string | undefined
  readonly ip: string | undefined
  readonly method: string
  readonly host: string
  /** Canonical; empty if it was not valid. */
  readonly path: string
  /** With its question mark, or empty. */
  readonly query: string
  readonly version: string
  readonly status: number
  /** Bytes of the bodies. */
  readonly bytesIn: number
  readonly bytesOut: number
  readonly route: string | undefined
  readonly upstream: string | undefined
  readonly target: string | undefined
  readonly upstreamMs: number | undefined
  readonly userAgent: string | undefined
  readonly referer: string | undefined
  /** Why the gateway itself responded. */
  readonly problem: string | undefined
  /** True if the client disconnected before the end of the response. */
  readonly isAborted: boolean
}

export const queryModes = ['omitted', 'masked', 'full'] as const

export type QueryMode = (typeof queryModes)[number]

export interface AccessLineOptions {
  readonly address: ClientAddress
  readonly query: QueryMode
  readonly nodeId: string
  readonly region: string | undefined
}

/** Lengths after escaping. A user agent of a browser has 120 characters. */
const PATH_LENGTH_MAX = 1_024
const QUERY_LENGTH_MAX = 512
const AGENT_LENGTH_MAX = 512
const REFERER_LENGTH_MAX = 512
const HOST_LENGTH_MAX = 255
const METHOD_LENGTH_MAX = 32
const PROBLEM_LENGTH_MAX = 255

/** Makes the text of a line, with its newline. `sampleRate` is 1 if all are logged. */
export type FormatAccess = (record: AccessRecord, sampleRate: number) => string

export function jsonAccess({ address, query, nodeId, region }: AccessLineOptions): FormatAccess {
  const place = `,"region":${jsonText(region, 64)},"node_id":${jsonText(nodeId, 128)}}\n`
  return (one, sampleRate) => {
    const search = shownQuery(one.query, query)
    let line = `{"ts":"${isoTime(one.startedMs)}","level":"info","event":"gateway.access"`
    line += `,"request_id":${jsonText(one.requestId, 128)},"trace_id":${jsonText(one.traceId, 32)}`
    line += `,"client_ip":${jsonText(address(one.ip), 64)}`
    line += `,"method":${jsonText(one.method, METHOD_LENGTH_MAX)}`
    line += `,"host":${jsonText(one.host, HOST_LENGTH_MAX)}`
    line += `,"path":${jsonText(one.path, PATH_LENGTH_MAX)}`
    if (search !== '') line += `,"query":${jsonText(search, QUERY_LENGTH_MAX)}`
    line += `,"protocol":"${protocolOf(one.version)}","status":${one.status}`
    line += `,"duration_ms":${rounded(one.durationMs)}`
    line += `,"bytes_in":${one.bytesIn},"bytes_out":${one.bytesOut}`
    line += `,"route":${jsonText(one.route, 255)},"upstream":${jsonText(one.upstream, 64)}`
    if (one.target !== undefined) line += `,"target":${jsonText(one.target, 255)}`
    if (one.upstreamMs !== undefined) line += `,"upstream_ms":${rounded(one.upstreamMs)}`
    line += `,"user_agent":${jsonText(one.userAgent, AGENT_LENGTH_MAX)}`
    const referer = refererOf(one.referer, query)
    if (referer !== undefined) line += `,"referer":${jsonText(referer, REFERER_LENGTH_MAX)}`
    if (one.problem !== undefined) line += `,"problem":${jsonText(one.problem, PROBLEM_LENGTH_MAX)}`
    if (one.isAborted) line += ',"aborted":true'
    if (sampleRate < 1) line += `,"sample_rate":${sampleRate}`
    return line + place
  }
}

/** https://httpd.apache.org/docs/current/mod/mod_log_config.html, escaped as nginx does. */
export function combinedAccess({ address, query }: AccessLineOptions): FormatAccess {
  return (one) => {
    const path = clfText(`${one.path}${shownQuery(one.query, query)}`, PATH_LENGTH_MAX)
    const method = clfText(one.method, METHOD_LENGTH_MAX)
    const request = method === '' ? '-' : `${method} ${path || '-'} ${protocolOf(one.version)}`
    const referer = clfText(refererOf(one.referer, query) ?? '', REFERER_LENGTH_MAX) || '-'
    const agent = clfText(one.userAgent ?? '', AGENT_LENGTH_MAX) || '-'
    const client = clfText(address(one.ip) ?? '', 64) || '-'
    const start = `${client} - - [${clfTime(one.startedMs)}]`
    return `${start} "${request}" ${one.status} ${one.bytesOut} "${referer}" "${agent}"\n`
  }
}

function protocolOf(version: string): string {
  return version === '2' ? 'HTTP/2.0' : `HTTP/${version}`
}

/** Values of a query can be credentials; names say which parameters were there. */
function shownQuery(query: string, mode: QueryMode): string {
  if (mode === 'omitted' || query === '') return ''
  if (mode === 'full') return query
  const parts = query.slice(1, QUERY_LENGTH_MAX).split('&')
  return `?${parts.map(maskedPart).join('&')}`
}

function maskedPart(part: string): string {
  const at = part.indexOf('=')
  return at < 0 ? '***' : `${part.slice(0, at)}=***`
}

function refererOf(referer: string | undefined, mode: QueryMode): string | undefined {
  if (referer === undefined) return undefined
  const bare = referer.replace(/^([A-Za-z]+:\/\/)[^/?#]*@/, '$1')
  const end = bare.search(/[?#]/)
  if (end < 0 || mode === 'full') return bare
  return `${bare.slice(0, end)}${shownQuery(bare.slice(end), mode)}`
}

const plainJson = /^[\x20\x21\x23-\x5b\x5d-\x7e]*$/

/** A string of JSON with at most `lengthMax` characters between its quotes, or null. */
function jsonText(text: string | undefined, lengthMax: number): string {
  if (text === undefined) return 'null'
  if (text.length <= lengthMax && plainJson.test(text)) return `"${text}"`
  return `"${escaped(text, lengthMax, jsonEscape)}"`
}

/** Between quotes of the combined format; the escapes are those of nginx. */
function clfText(text: string, lengthMax: number): string {
  if (text.length <= lengthMax && plainJson.test(text)) return text
  return escaped(text, lengthMax, clfEscape)
}

function escaped(text: string, lengthMax: number, escapeOf: (one: string) => string): string {
  let result = ''
  for (let at = 0; at < text.length && at < lengthMax; at++) {
    const character = text.charAt(at)
    const next = plainJson.test(character) ? character : escapeOf(character)
    if (result.length + next.length > lengthMax) break
    result += next
  }
  return result
}

function jsonEscape(character: string): string {
  if (character === '"' || character === '\\') return `\\${character}`
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
}

function clfEscape(character: string): string {
  const code = character.charCodeAt(0)
  // Header fields are latin1; other texts have their bytes of UTF-8.
  const bytes = code <= 0xff ? [code] : [...Buffer.from(character, 'utf8')]
  return bytes.map((byte) => `\\x${byte.toString(16).toUpperCase().padStart(2, '0')}`).join('')
}

/** To a microsecond. */
function rounded(ms: number): number {
  return Math.round(ms * 1_000) / 1_000
}

const second = { at: -1, iso: '', clf: '' }

/** The texts of a second are made once. */
function secondOf(ms: number): typeof second {
  const at = Math.floor(ms / 1_000)
  if (at !== second.at) {
    const date = new Date(at * 1_000)
    second.at = at
    second.iso = date.toISOString().slice(0, 20)
    const [, day, month, year, time] = date.toUTCString().split(' ')
    second.clf = `${day}/${month}/${year}:${time} +0000`
  }
  return second
}

function isoTime(ms: number): string {
  return `${secondOf(ms).iso}${String(Math.floor(ms % 1_000)).padStart(3, '0')}Z`
}

function clfTime(ms: number): string {
  return secondOf(ms).clf
}
