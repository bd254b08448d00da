/**
 * A request whose execution does not end with its client: the upstream's response is kept for a
 * client that has disconnected, and asks again. The body is read once, for the fingerprint, and
 * handed on.
 */

import type { MaybePromise } from 'tidegate'
import type { Identity } from '../../../limits/request-facts.ts'
import type { Body } from '../../body/body.ts'
import { type BufferTotal, bufferBody } from '../../body/buffer-body.ts'
import type { HeaderList } from '../../header-list.ts'
import type { GatewayRequest } from '../../message.ts'

type OnEnd = (isAborted: boolean) => void

const noBytes = Buffer.alloc(0)

export class DetachedRequest implements GatewayRequest {
  readonly #request: GatewayRequest
  #body: Promise<Buffer | Body> | undefined
  /** Undefined once the request has ended, or is no longer detached. */
  #callbacks: OnEnd[] | undefined = []

  constructor(request: GatewayRequest) {
    this.#request = request
  }

  get method() {
    return this.#request.method
  }

  get path() {
    return this.#request.path
  }

  get query() {
    return this.#request.query
  }

  get ip() {
    return this.#request.ip
  }

  get client() {
    return this.#request.client
  }

  get headers() {
    return this.#request.headers
  }

  get forwarded() {
    return this.#request.forwarded
  }

  get version() {
    return this.#request.version
  }

  get host() {
    return this.#request.host
  }

  get connection() {
    return this.#request.connection
  }

  get upgrade() {
    return this.#request.upgrade
  }

  get bodyBytes() {
    return this.#request.bodyBytes
  }

  get bodyBytesReceived() {
    return this.#request.bodyBytesReceived
  }

  get hasBody() {
    return this.#request.hasBody
  }

  get problem() {
    return this.#request.problem
  }

  get context() {
    return this.#request.context
  }

  get identity(): Identity {
    return this.#request.identity
  }

  set identity(identity: Identity) {
    this.#request.identity = identity
  }

  header(name: string): string | undefined {
    return this.#request.header(name)
  }

  inform(status: number, headers: HeaderList): void {
    this.#request.inform(status, headers)
  }

  body(): Promise<Buffer | Body> {
    return this.#body ?? this.#request.body()
  }

  /**
   * Reads the body into memory; undefined if it is larger, or if all bodies together are. Rejects
   * as `body` does.
   */
  readBody(bytesMax: number, total: BufferTotal): MaybePromise<Buffer | undefined> {
    if (!this.hasBody) return noBytes
    this.#body = this.#request.body()
    return this.#body.then((arriving) => {
      if (Buffer.isBuffer(arriving)) return arriving.length <= bytesMax ? arriving : undefined
      return this.#readLong(arriving, bytesMax, total)
    })
  }

  async #readLong(arriving: Body, bytesMax: number, total: BufferTotal) {
    const read = await bufferBody(arriving, bytesMax, total)
    if (Buffer.isBuffer(read)) {
      this.#body = Promise.resolve(read)
      return read
    }
    read.cancel()
    return undefined
  }

  onEnd(callback: OnEnd): void {
    if (this.#callbacks === undefined) this.#request.onEnd(callback)
    else this.#callbacks.push(callback)
  }

  /** The response is complete. */
  end(): void {
    const callbacks = this.#callbacks ?? []
    this.#callbacks = undefined
    for (const callback of callbacks) callback(false)
  }

  /** The response is sent as it arrives, so that the request ends with its client again. */
  attach(): void {
    const callbacks = this.#callbacks ?? []
    this.#callbacks = undefined
    for (const callback of callbacks) this.#request.onEnd(callback)
  }
}
