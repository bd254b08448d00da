/** One request to the JSON gateway of one member of etcd, with a deadline and a bound on size. */

import type { Agent, ClientRequest, IncomingMessage, OutgoingHttpHeaders } from 'node:http'
import { requestOf } from './endpoints.ts'
import { EtcdFailure, failureOf } from './etcd-failure.ts'
import type { EtcdSettings } from './etcd-settings.ts'

/** Enough of a refusal for a line of a log. */
const TEXT_LENGTH_MAX = 200

export interface GatewayCall {
  readonly path: string
  readonly body: unknown
  readonly headers?: OutgoingHttpHeaders
  readonly tls?: EtcdSettings['tls']
  /** False for a connection of its own. */
  readonly agent: Agent | false
  /** Ends the request at any time. */
  readonly signal: AbortSignal
}

/** Sends the request. The response is left to `onResponse`, failures to `onFailure`. */
export function startCall(
  endpoint: URL,
  { path, body, headers = {}, tls, agent, signal }: GatewayCall,
  onResponse: (response: IncomingMessage) => void,
  onFailure: (failure: EtcdFailure) => void,
): ClientRequest {
  const text = JSON.stringify(body)
  const request = requestOf(endpoint)(new URL(path, endpoint), {
    method: 'POST',
    agent,
    signal,
    headers: { ...headers, 'content-type': 'application/json', 'content-length': byteLength(text) },
    ...(tls ?? {}),
  })
  let isConnected = false
  request.on('socket', (socket) => {
    const event = endpoint.protocol === 'https:' ? 'secureConnect' : 'connect'
    if (!socket.connecting) isConnected = true
    else socket.once(event, () => (isConnected = true))
  })
  request.on('response', onResponse)
  request.on('error', (error) => onFailure(new EtcdFailure('away', error.message, isConnected)))
  request.end(text)
  return request
}

/** Returns the parsed response. Rejects with an EtcdFailure. */
export function callOnce(
  endpoint: URL,
  call: GatewayCall,
  timeoutMs: number,
  bytesMax: number,
): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const end = (failure: EtcdFailure) => {
      clearTimeout(timer)
      request.destroy()
      reject(failure)
    }
    const timer = setTimeout(
      () => end(new EtcdFailure('away', `no answer within ${timeoutMs} ms`)),
      timeoutMs,
    )
    const request = startCall(
      endpoint,
      call,
      (response) => {
        readBody(response, bytesMax).then((body) => {
          clearTimeout(timer)
          const { statusCode = 0 } = response
          if (statusCode === 200 && typeof body === 'object') resolve(body)
          else reject(failureOf(statusCode, body))
        }, end)
      },
      end,
    )
  })
}

/** Rejects with an EtcdFailure if the body is too large or ends early. */
export function readBody(response: IncomingMessage, bytesMax: number): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = []
    let bytes = 0
    response.on('data', (part: Buffer) => {
      parts.push(part)
      bytes += part.length
      if (bytes > bytesMax) reject(new EtcdFailure('large', `more than ${bytesMax} bytes`))
    })
    response.on('end', () => resolve(parsed(Buffer.concat(parts).toString('utf8'))))
    response.on('error', (error) => reject(new EtcdFailure('away', error.message)))
  })
}

/** Some refusals are plain text, and a proxy or a wrong port may answer with anything. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text.trim().slice(0, TEXT_LENGTH_MAX)
  }
}

function byteLength(text: string): number {
  return Buffer.byteLength(text)
}
