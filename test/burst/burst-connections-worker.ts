/**
 * Opens many HTTP/1 connections at once and sends requests on each, one after the other. It reads
 * only the status and whether the decision was degraded. Started by `burstOfConnections`.
 */

import { connect } from 'node:net'

export interface ConnectionsPlan {
  readonly port: number
  /** Numbers of the connections of this process: from `first`, every `step`-th below `count`. */
  readonly first: number
  readonly step: number
  readonly count: number
  readonly requestsEach: number
  /** API keys, which the requests use in turn. */
  readonly keys: number
}

export interface ConnectionsResult {
  /** Responses by status, and requests without one by the error. */
  readonly outcomes: Readonly<Record<string, number>>
  /** Responses with status 200, by the number of the API key. */
  readonly admitted: readonly number[]
  readonly degraded: number
}

/** Far longer than a burst takes; a connection that is silent for longer has lost its response. */
const SILENCE_MS_MAX = 45_000

const plan = JSON.parse(process.argv[2] ?? '') as ConnectionsPlan
const outcomes: Record<string, number> = {}
const admitted = new Array<number>(plan.keys).fill(0)
let degraded = 0

process.on('message', async () => {
  const all: Promise<void>[] = []
  for (let at = plan.first; at < plan.count; at += plan.step) all.push(useConnection(at))
  await Promise.all(all)
  process.send?.({ outcomes, admitted, degraded } satisfies ConnectionsResult)
})
process.once('disconnect', () => process.exit())
process.send?.('ready')

function useConnection(number: number): Promise<void> {
  return new Promise((resolve) => {
    const socket = connect({ port: plan.port, host: '127.0.0.1', noDelay: true })
    let sent = 0
    let text = ''
    const keyOfRequest = () => (number + sent * plan.count) % plan.keys
    const send = () => socket.write(request(keyOfRequest()))
    const end = (outcome?: string) => {
      if (outcome !== undefined) countOutcome(outcome)
      socket.destroy()
      resolve()
    }
    socket.setEncoding('latin1')
    socket.setTimeout(SILENCE_MS_MAX, () => end('silence'))
    socket.once('connect', send)
    socket.once('error', (error: NodeJS.ErrnoException) => end(error.code ?? error.message))
    socket.once('end', () => end('closed by the server'))
    socket.on('data', (chunk: string) => {
      text += chunk
      const length = responseLength(text)
      if (length === undefined || text.length < length) return
      countResponse(text, keyOfRequest())
      text = text.slice(length)
      sent++
      if (sent < plan.requestsEach) send()
      else end()
    })
  })
}

function request(key: number): string {
  return `GET /burst HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: key-${key}\r\n\r\n`
}

/** Undefined while the head is not complete. Every response here has a Content-Length. */
function responseLength(text: string): number | undefined {
  const headEnd = text.indexOf('\r\n\r\n')
  if (headEnd === -1) return undefined
  const [, length] = /\r\ncontent-length: *(\d+)/i.exec(text) ?? []
  if (length === undefined) throw new Error(`a response without a length:\n${text}`)
  return headEnd + 4 + Number(length)
}

function countResponse(text: string, key: number): void {
  const status = text.slice(9, 12)
  countOutcome(status)
  if (status === '200') admitted[key] = (admitted[key] ?? 0) + 1
  if (/\r\nx-ratelimit-status: degraded/i.test(text)) degraded++
}

function countOutcome(name: string): void {
  outcomes[name] = (outcomes[name] ?? 0) + 1
}
