/**
 * Calls etcd through its JSON gateway: finds a member that answers, and holds the token. A call
 * that may have been applied is never repeated.
 *
 * The gateway instead of gRPC, because it needs no package: docs/control-plane.md.
 */

import { Agent, type IncomingMessage } from 'node:http'
import { Agent as TlsAgent } from 'node:https'
import { Endpoints } from './endpoints.ts'
import { EtcdFailure, failureOf } from './etcd-failure.ts'
import type { EtcdSettings } from './etcd-settings.ts'
import { fieldsOf } from './gateway-messages.ts'
import { callOnce, type GatewayCall, readBody, startCall } from './gateway-request.ts'

/**
 * A page of 500 entries of 4 KB, or ten documents, in base64. To parse it takes 15 ms, in which the
 * process decides nothing. A larger page is read in parts.
 */
const RESPONSE_BYTES_MAX = 4 * 1024 ** 2

/** Errors are a few lines. */
const ERROR_BYTES_MAX = 64 * 1024

/** Looks, pages and keep-alives of one process use one connection, rarely two. */
const SOCKETS_MAX = 4

export interface CallOptions {
  /** The deadline of the call to each member. */
  readonly timeoutMs: number
  /** Whether a call that may have been applied can be repeated. */
  readonly isRepeatable: boolean
  /** The largest response. Default and maximum: 4 MiB. */
  readonly bytesMax?: number
}

export interface OpenStream {
  /** The member that sends it. */
  readonly endpoint: URL
  close(): void
}

export interface StreamListener {
  onChunk(chunk: Buffer): void
  /** The stream has ended or could not be opened. Called once. */
  onEnd(failure: EtcdFailure): void
}

export class EtcdClient {
  readonly endpoints: Endpoints
  readonly #settings: EtcdSettings
  readonly #closing = new AbortController()
  readonly #agents = { 'http:': agentOf(Agent), 'https:': agentOf(TlsAgent) }
  #token: string | undefined
  /** True while no member has answered since all of them failed. */
  #areAllAway = false
  #authenticating: Promise<void> | undefined

  constructor(settings: EtcdSettings) {
    this.#settings = settings
    this.endpoints = new Endpoints(settings.endpoints)
  }

  /**
   * Asks every member at most once. Rejects with the failure of the last one. When all have failed,
   * a call asks one member, the next one another, until one answers: a change that needs several
   * calls fails after seconds then, instead of half a minute.
   */
  async call(path: string, body: unknown, options: CallOptions): Promise<unknown> {
    for (let left = this.#areAllAway ? 1 : this.endpoints.count; ; ) {
      const endpoint = this.endpoints.current
      try {
        const answer = await this.#callWithToken(endpoint, path, body, options)
        this.#areAllAway = false
        return answer
      } catch (error) {
        if (!(error instanceof EtcdFailure) || error.kind !== 'away') throw error
        if (this.#closing.signal.aborted) throw error
        this.endpoints.leave(endpoint)
        left -= 1
        if (left === 0) this.#areAllAway = true
        if (left === 0 || (error.wasSent && !options.isRepeatable)) throw error
      }
    }
  }

  /** Opens a stream from the current member, on a connection of its own. */
  async openStream(path: string, body: unknown, listener: StreamListener): Promise<OpenStream> {
    const endpoint = this.endpoints.current
    if (this.#token === undefined) await this.#authenticate(endpoint)
    let isOpen = true
    const end = (failure: EtcdFailure) => {
      if (!isOpen) return
      isOpen = false
      request.destroy()
      if (failure.kind === 'token') this.#token = undefined
      listener.onEnd(failure)
    }
    const call = this.#callOf(endpoint, path, body, false)
    const request = startCall(
      endpoint,
      // Without a leader, the watch of a member that is cut off would stay open and silent.
      { ...call, headers: { ...call.headers, 'grpc-metadata-hasleader': 'true' } },
      (response) => followStream(response, () => isOpen, listener, end),
      end,
    )
    return {
      endpoint,
      close() {
        isOpen = false
        request.destroy()
      },
    }
  }

  /** The next call asks for a new token. */
  forgetToken(): void {
    this.#token = undefined
  }

  /** Ends calls and streams that are under way. */
  close(): void {
    this.#closing.abort()
    for (const agent of Object.values(this.#agents)) agent.destroy()
  }

  /** A token that is refused is replaced once. */
  async #callWithToken(
    endpoint: URL,
    path: string,
    body: unknown,
    options: CallOptions,
  ): Promise<unknown> {
    if (this.#token === undefined) await this.#authenticate(endpoint)
    const used = this.#token
    try {
      return await this.#callOnce(endpoint, path, body, options)
    } catch (error) {
      const isAboutToken = error instanceof EtcdFailure && error.kind === 'token'
      if (!isAboutToken || this.#settings.user === undefined) throw error
      if (this.#token === used) this.#token = undefined
      await this.#authenticate(endpoint)
      return this.#callOnce(endpoint, path, body, options)
    }
  }

  #callOnce(endpoint: URL, path: string, body: unknown, options: CallOptions): Promise<unknown> {
    const call = this.#callOf(endpoint, path, body, options.isRepeatable)
    const { timeoutMs, bytesMax = RESPONSE_BYTES_MAX } = options
    return callOnce(endpoint, call, timeoutMs, Math.min(bytesMax, RESPONSE_BYTES_MAX))
  }

  /**
   * A call that must not be repeated gets a connection of its own: a kept one may have been closed
   * by the member, and the failure would not show whether the call arrived.
   */
  #callOf(endpoint: URL, path: string, body: unknown, isKept: boolean): GatewayCall {
    const { tls } = this.#settings
    const agent = this.#agents[endpoint.protocol as 'http:' | 'https:'] ?? false
    return {
      path,
      body,
      agent: isKept ? agent : false,
      signal: this.#closing.signal,
      ...(this.#token ? { headers: { authorization: this.#token } } : {}),
      ...(tls && { tls }),
    }
  }

  /** Gets a token, if there is a user. The empty token means that etcd does not ask for one. */
  async #authenticate(endpoint: URL): Promise<void> {
    const { user, password = '' } = this.#settings
    if (user === undefined) {
      this.#token = ''
      return
    }
    this.#authenticating ??= this.#askForToken(endpoint, user, password).finally(() => {
      this.#authenticating = undefined
    })
    await this.#authenticating
  }

  async #askForToken(endpoint: URL, name: string, password: string): Promise<void> {
    this.#token = undefined
    const call = this.#callOf(endpoint, '/v3/auth/authenticate', { name, password }, true)
    try {
      const body = await callOnce(endpoint, call, AUTHENTICATE_MS, ERROR_BYTES_MAX)
      const { token } = fieldsOf(body)
      if (typeof token !== 'string') throw new EtcdFailure('denied', 'etcd returned no token')
      this.#token = token
    } catch (error) {
      const isOff = error instanceof EtcdFailure && /is not enabled/.test(error.message)
      if (!isOff) throw error
      this.#token = ''
    }
  }
}

/** etcd hashes the password slowly, on purpose. */
const AUTHENTICATE_MS = 3_000

function agentOf<T>(kind: new (options: object) => T): T {
  return new kind({ keepAlive: true, maxSockets: SOCKETS_MAX })
}

function followStream(
  response: IncomingMessage,
  isOpen: () => boolean,
  listener: StreamListener,
  end: (failure: EtcdFailure) => void,
): void {
  const { statusCode = 0 } = response
  if (statusCode !== 200) {
    readBody(response, ERROR_BYTES_MAX).then((body) => end(failureOf(statusCode, body)), end)
    return
  }
  response.on('data', (chunk: Buffer) => {
    if (isOpen()) listener.onChunk(chunk)
  })
  response.on('end', () => end(new EtcdFailure('away', 'the member ended the stream')))
  response.on('error', (error) => end(new EtcdFailure('away', error.message)))
}
