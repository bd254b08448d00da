/**
 * A listener of several processes that survives one that hangs. The supervisor accepts connections,
 * asks all workers, and hands each connection to the first that answers. `cluster` hands it to the
 * next in turn, so that a worker that hangs takes one connection to each listener with it.
 *
 * The question takes a fraction of a millisecond, so that this is for listeners with few
 * connections, such as that of operators.
 */

import { createServer, type Server, type Socket } from 'node:net'

export interface ListenPlace {
  readonly host: string
  readonly port: number
}

/** The messages between a supervisor and its workers. A connection goes with `handed`. */
export type HandMessage =
  | { readonly tidegate: 'listen'; readonly place: ListenPlace }
  | { readonly tidegate: 'listening'; readonly address: ListenPlace }
  | { readonly tidegate: 'listen-failed'; readonly code: string; readonly message: string }
  | { readonly tidegate: 'unlisten' }
  | { readonly tidegate: 'unlistened' }
  | { readonly tidegate: 'free'; readonly id: number }
  | { readonly tidegate: 'handed' }

export interface HandChannel {
  /** Does nothing if the other process has ended. */
  send(message: HandMessage, socket?: Socket): void
}

/** A worker answers within a millisecond, unless it is busy. If all hang, the client is reset. */
const ANSWER_MS_MAX = 5_000

/** Connections that wait for a worker; a listener of operators has a handful. */
const WAITING_MAX = 1_000

/** The supervisor's side, for one listener. */
export class HandingListener {
  readonly #workers = new Map<number, HandChannel>()
  readonly #waiting = new Map<number, { readonly socket: Socket; readonly timer: NodeJS.Timeout }>()
  #server: Promise<Server> | undefined
  #nextId = 0

  /** To be called with every message of a worker. */
  onMessage(worker: number, channel: HandChannel, message: unknown): void {
    if (!isHandMessage(message)) return
    if (message.tidegate === 'listen') void this.#listen(worker, channel, message.place)
    if (message.tidegate === 'unlisten') {
      this.remove(worker)
      channel.send({ tidegate: 'unlistened' })
    }
    if (message.tidegate === 'free') this.#hand(message.id, worker)
  }

  remove(worker: number): void {
    this.#workers.delete(worker)
  }

  async close(): Promise<void> {
    const server = this.#server
    this.#server = undefined
    ;(await server?.catch(() => undefined))?.close()
  }

  async #listen(worker: number, channel: HandChannel, place: ListenPlace): Promise<void> {
    this.#server ??= this.#open(place)
    try {
      const address = (await this.#server).address() as { address: string; port: number }
      this.#workers.set(worker, channel)
      const { address: host, port } = address
      channel.send({ tidegate: 'listening', address: { host, port } })
      for (const id of this.#waiting.keys()) channel.send({ tidegate: 'free', id })
    } catch (error) {
      this.#server = undefined
      const { code = '', message } = error as NodeJS.ErrnoException
      channel.send({ tidegate: 'listen-failed', code, message })
    }
  }

  #open(place: ListenPlace): Promise<Server> {
    const server = createServer({ pauseOnConnect: true }, (socket) => this.#ask(socket))
    return new Promise((resolve, reject) => {
      // It stays: an error of a later connection must not end the supervisor.
      server.on('error', reject)
      server.listen({ ...place, exclusive: true }, () => resolve(server))
    })
  }

  #ask(socket: Socket): void {
    if (this.#waiting.size >= WAITING_MAX) {
      socket.destroy()
      return
    }
    const id = this.#nextId++
    const timer = setTimeout(() => {
      this.#waiting.delete(id)
      socket.destroy()
    }, ANSWER_MS_MAX)
    this.#waiting.set(id, { socket, timer })
    // A client that disconnects before it is handed over must not end the process.
    socket.on('error', () => undefined)
    for (const channel of this.#workers.values()) channel.send({ tidegate: 'free', id })
  }

  #hand(id: number, worker: number): void {
    const found = this.#waiting.get(id)
    const channel = this.#workers.get(worker)
    if (found === undefined || channel === undefined) return
    this.#waiting.delete(id)
    clearTimeout(found.timer)
    channel.send({ tidegate: 'handed' }, found.socket)
  }
}

/** Where a listener gets its connections from, instead of its own socket. */
export interface ConnectionSource {
  /** Rejects with the error of the supervisor, such as EADDRINUSE. */
  listen(place: ListenPlace, onConnection: (socket: Socket) => void): Promise<ListenPlace>
  /** Resolves when no more connections come. */
  close(): Promise<void>
}

export interface SupervisorHandChannel extends HandChannel {
  onMessage(listener: (message: unknown, socket: Socket | undefined) => void): void
}

/** The side of a worker. */
export class HandedConnections implements ConnectionSource {
  readonly #channel: SupervisorHandChannel
  readonly #opened = Promise.withResolvers<ListenPlace>()
  readonly #closed = Promise.withResolvers<void>()
  #onConnection: ((socket: Socket) => void) | undefined

  constructor(channel: SupervisorHandChannel) {
    this.#channel = channel
    channel.onMessage((message, socket) => this.#onMessage(message, socket))
  }

  listen(place: ListenPlace, onConnection: (socket: Socket) => void): Promise<ListenPlace> {
    this.#onConnection = onConnection
    this.#channel.send({ tidegate: 'listen', place })
    return this.#opened.promise.catch((error: Error) => {
      throw Object.assign(error, place)
    })
  }

  close(): Promise<void> {
    this.#channel.send({ tidegate: 'unlisten' })
    return this.#closed.promise
  }

  #onMessage(message: unknown, socket: Socket | undefined): void {
    if (!isHandMessage(message)) return
    if (message.tidegate === 'free') this.#channel.send(message)
    if (message.tidegate === 'unlistened') this.#closed.resolve()
    if (message.tidegate === 'listening') this.#opened.resolve(message.address)
    if (message.tidegate === 'listen-failed') {
      this.#opened.reject(Object.assign(new Error(message.message), { code: message.code }))
    }
    // The client may have disconnected on the way.
    if (message.tidegate === 'handed' && socket !== undefined) this.#onConnection?.(socket)
  }
}

const kinds = ['listen', 'listening', 'listen-failed', 'unlisten', 'unlistened', 'free', 'handed']

function isHandMessage(message: unknown): message is HandMessage {
  if (typeof message !== 'object' || message === null || !('tidegate' in message)) return false
  return kinds.some((kind) => kind === message.tidegate)
}
