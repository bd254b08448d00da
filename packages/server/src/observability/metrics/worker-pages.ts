/**
 * One page of metrics for several processes. A worker that is asked for the page asks its
 * supervisor, which asks all workers and adds up their numbers.
 *
 * Totals never fall: a worker that hangs counts with the numbers that it sent last, and so does one
 * that has ended. A worker that is killed loses what it has counted since the last page.
 */

import { gauge, type MetricFamily } from 'tidegate/metrics'
import { mergeFamilies, totalsOf } from './merge-families.ts'

type Families = readonly MetricFamily[]

/** The messages between a supervisor and its workers. */
export type PageMessage =
  /** From a worker: it needs the page of all. To a worker: its numbers are needed. */
  | { readonly tidegate: 'page-wanted'; readonly id: number }
  /** From a worker: its numbers. To a worker: those of all. */
  | { readonly tidegate: 'page'; readonly id: number; readonly families: Families }

export interface WorkerChannel {
  /** Identifies the worker. */
  readonly id: number
  /** Does nothing if the worker has ended. */
  send(message: PageMessage): void
}

/** A worker answers within a few milliseconds, unless it hangs. Prometheus waits for 10 s. */
const ANSWER_MS_MAX = 500

/** The supervisor needs as long for a worker that hangs, and some time to add up. */
const PAGE_MS_MAX = 2_000

/** Series of ended workers: twice a large page. Beyond it they are dropped, as after a restart. */
const ENDED_SERIES_MAX = 5_000

/** Stands for the id of a message that a worker sends before it ends. */
const UNASKED = -1

/** Adds up the pages of workers, in their supervisor. */
export class WorkerPages {
  readonly #channels = new Map<number, WorkerChannel>()
  readonly #latest = new Map<number, Families>()
  readonly #waiting = new Map<number, { readonly from: Set<number>; done(): void }>()
  #ended: Families = []
  #nextId = 0

  add(channel: WorkerChannel): void {
    this.#channels.set(channel.id, channel)
  }

  /** Keeps the totals of a worker that has ended. */
  remove(id: number): void {
    this.#channels.delete(id)
    const ended = mergeFamilies([this.#ended, totalsOf(this.#latest.get(id) ?? [])])
    this.#latest.delete(id)
    const series = ended.reduce((sum, { samples }) => sum + samples.length, 0)
    this.#ended = series > ENDED_SERIES_MAX ? [] : ended
    for (const { from, done } of this.#waiting.values()) {
      from.delete(id)
      if (from.size === 0) done()
    }
  }

  /** To be called with every message of a worker. */
  onMessage(id: number, message: unknown): void {
    if (!isPageMessage(message)) return
    if (message.tidegate === 'page-wanted') {
      void this.read().then((families) => {
        this.#channels.get(id)?.send({ tidegate: 'page', id: message.id, families })
      })
      return
    }
    if (this.#channels.has(id)) this.#latest.set(id, message.families)
    const waiting = this.#waiting.get(message.id)
    waiting?.from.delete(id)
    if (waiting?.from.size === 0) waiting.done()
  }

  /** Never rejects, and takes at most `ANSWER_MS_MAX`. */
  async read(): Promise<Families> {
    const asked = [...this.#channels.values()]
    const id = this.#nextId++
    const from = new Set(asked.map((channel) => channel.id))
    if (from.size > 0) await this.#answers(id, from, asked)
    const silent = from.size
    const living = asked.filter((channel) => this.#channels.has(channel.id)).length
    const workers = gauge('tidegate_workers', 'Processes by whether they answered.', [
      { labels: { state: 'answered' }, value: living - silent },
      { labels: { state: 'silent' }, value: silent },
    ])
    return [...mergeFamilies([this.#ended, ...this.#latest.values()]), workers]
  }

  /** Resolves when every worker has answered, or the time is up. */
  async #answers(id: number, from: Set<number>, asked: readonly WorkerChannel[]): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#waiting.set(id, { from, done: resolve })
    const timer = setTimeout(resolve, ANSWER_MS_MAX)
    for (const channel of asked) channel.send({ tidegate: 'page-wanted', id })
    await promise
    clearTimeout(timer)
    this.#waiting.delete(id)
  }
}

/** The side of a worker. */
export interface SupervisorChannel {
  /** Calls back when the message was sent or could not be sent. */
  send(message: PageMessage, sent?: () => void): void
  onMessage(listener: (message: unknown) => void): void
}

export class WorkerPage {
  readonly #channel: SupervisorChannel
  readonly #waiting = new Map<number, (families: Families) => void>()
  #own: () => Promise<Families> = async () => []
  #nextId = 0

  constructor(channel: SupervisorChannel) {
    this.#channel = channel
    channel.onMessage((message) => this.#onMessage(message))
  }

  /** Returns the page of all workers; that of this worker if the supervisor does not answer. */
  readonly ofAll = (own: () => Promise<Families>): (() => Promise<Families>) => {
    this.#own = own
    return async () => {
      const id = this.#nextId++
      const { promise, resolve } = Promise.withResolvers<Families | undefined>()
      this.#waiting.set(id, resolve)
      const timer = setTimeout(() => resolve(undefined), PAGE_MS_MAX)
      this.#channel.send({ tidegate: 'page-wanted', id })
      const families = await promise
      clearTimeout(timer)
      this.#waiting.delete(id)
      return families ?? own()
    }
  }

  /** Sends the last numbers before the worker ends. */
  async finish(): Promise<void> {
    const families = await this.#own()
    await new Promise<void>((resolve) => {
      this.#channel.send({ tidegate: 'page', id: UNASKED, families }, resolve)
    })
  }

  #onMessage(message: unknown): void {
    if (!isPageMessage(message)) return
    if (message.tidegate === 'page') {
      this.#waiting.get(message.id)?.(message.families)
      return
    }
    const { id } = message
    void this.#own().then((families) => this.#channel.send({ tidegate: 'page', id, families }))
  }
}

function isPageMessage(message: unknown): message is PageMessage {
  if (typeof message !== 'object' || message === null || !('tidegate' in message)) return false
  return message.tidegate === 'page' || message.tidegate === 'page-wanted'
}
