/**
 * The exchange of the mode `shared` in the region's Redis: the elected exchanger, the reports of
 * nodes and the messages of other regions that wait for it, and the rows that the next exchanger
 * continues with. All keys share a slot.
 *
 * Every exchanger has a term, and a later one has a higher term. Calls with an older term are
 * refused, so that two exchangers at once do no harm.
 */

import type { SharedRow } from 'tidegate/regions'

/** Runs a script with keys of the exchange, as text. */
export type RunScript = (
  script: string,
  keys: readonly string[],
  args: readonly string[],
) => Promise<unknown>

export interface Lead {
  readonly term: number
  /** A stamp that is another one after the store has lost its data. */
  readonly incarnation: string
}

/** A report or a message with the time of the store when it arrived. */
export interface Arrived {
  readonly storeMs: number
  readonly body: string
}

export interface Taken {
  readonly storeMs: number
  readonly reports: readonly Arrived[]
  readonly messages: readonly Arrived[]
}

/** A row as it is kept: the limit, and the rows of the key. */
export interface SavedRow {
  /** The id of the limit, and the digest of the key. */
  readonly id: string
  readonly text: string
}

/** An exchanger that is gone is replaced after this time; it renews its lead three times in it. */
const LEAD_MS = 3_000

/** Longer than the rows of any window are kept. */
const TERM_LIFE_MS = 100 * 86_400_000

/** The exchanger takes them ten times a second. If none does, they are of no use after this. */
const ARRIVED_LIFE_MS = 5_000

/** Reports and messages that wait at a time. Those beyond are lost, which costs units only. */
const ARRIVED_MAX = 256

/** Rows in one command, which take Redis less than a millisecond. */
const BATCH_MAX = 256

const NOW = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
`

/**
 * KEYS: leader, term, incarnation. ARGV: the id of the process, ms of the lead, ms of the term, 1
 * for another term. Returns the term, or 0 if another process leads, and the incarnation.
 */
const LEAD = `${NOW}
local leader = redis.call('GET', KEYS[1])
if leader and leader ~= ARGV[1] then return {0, ''} end
local term = tonumber(redis.call('GET', KEYS[2]) or '0')
if not leader or ARGV[4] == '1' then
  -- By the clock too, so that terms also grow after the key was lost.
  term = math.max(term + 1, math.floor(now / 60000))
end
redis.call('SET', KEYS[2], string.format('%d', term), 'PX', ARGV[3])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
local incarnation = redis.call('GET', KEYS[3])
if not incarnation then incarnation = string.format('%012x0000', now) end
redis.call('SET', KEYS[3], incarnation, 'PX', ARGV[3])
return {term, incarnation}
`

/** KEYS: leader. ARGV: the id of the process. */
const RESIGN = `
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1
`

/** KEYS: a list. ARGV: a text, the most entries, ms of their life. Returns 0 if it is full. */
const PUSH = `${NOW}
if redis.call('LLEN', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call('RPUSH', KEYS[1], string.format('%d', now) .. ' ' .. ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
`

/** KEYS: term, incarnation, reports, messages. ARGV: term, incarnation. Returns time and lists. */
const TAKE = `${NOW}
if redis.call('GET', KEYS[1]) ~= ARGV[1] or redis.call('GET', KEYS[2]) ~= ARGV[2] then
  return {0}
end
local taken = {now}
for at = 3, 4 do
  taken[at - 1] = redis.call('LRANGE', KEYS[at], 0, -1)
  redis.call('DEL', KEYS[at])
end
return taken
`

/**
 * KEYS: term, index, rows. ARGV: term, ms of their life, for each row its id and its text. Returns
 * 1, or 0 if another process leads.
 */
const SAVE = `${NOW}
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
local life = tonumber(ARGV[2])
for at = 3, #KEYS do
  local first = 2 * at - 3
  redis.call('SET', KEYS[at], ARGV[first + 1], 'PX', ARGV[2])
  redis.call('ZADD', KEYS[2], now + life, ARGV[first])
end
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
if redis.call('PTTL', KEYS[2]) < life then redis.call('PEXPIRE', KEYS[2], ARGV[2]) end
return 1
`

/** KEYS: index. ARGV: the first and the last. Returns the ids of rows. */
const IDS = `return redis.call('ZRANGE', KEYS[1], ARGV[1], ARGV[2])`

/** KEYS: rows. Returns their texts. */
const ROWS = `return redis.call('MGET', unpack(KEYS))`

const rowKey = (id: string) => `row:${id}`

export class ExchangeStore {
  readonly #run: RunScript

  /**
   * `scope` is the same for nodes with the same list of regions. Rows have numbers of regions, so
   * those of another list would be wrong.
   */
  constructor(run: RunScript, scope: string) {
    this.#run = (script, keys, args) => {
      const scoped = keys.map((key) => `${scope}:${key}`)
      return run(script, scoped, args)
    }
  }

  /** Leads, or goes on leading; undefined if another process does. */
  async lead(id: string, isNewTerm: boolean): Promise<Lead | undefined> {
    const args = [id, String(LEAD_MS), String(TERM_LIFE_MS), isNewTerm ? '1' : '0']
    const reply = await this.#run(LEAD, ['leader', 'term', 'incarnation'], args)
    const [term, incarnation] = reply as [number, string]
    return term === 0 ? undefined : { term, incarnation }
  }

  async resign(id: string): Promise<void> {
    await this.#run(RESIGN, ['leader'], [id])
  }

  /** Leaves units that a node admitted to the exchanger. */
  async report(body: Uint8Array): Promise<void> {
    await this.#push('reports', Buffer.from(body).toString('base64'))
  }

  /** Leaves a message of another region to the exchanger. */
  async post(from: string, body: Uint8Array): Promise<void> {
    await this.#push('messages', `${from} ${Buffer.from(body).toString('base64')}`)
  }

  /** Takes all that arrived; undefined if this exchanger is replaced. */
  async take({ term, incarnation }: Lead): Promise<Taken | undefined> {
    const keys = ['term', 'incarnation', 'reports', 'messages']
    const reply = await this.#run(TAKE, keys, [String(term), incarnation])
    const [storeMs, reports = [], messages = []] = reply as [number, string[]?, string[]?]
    if (storeMs === 0) return undefined
    return { storeMs, reports: reports.map(arrived), messages: messages.map(arrived) }
  }

  /** Keeps rows for the next exchanger; false if this one is replaced. */
  async save({ term }: Lead, rows: readonly SavedRow[], lifeMs: number): Promise<boolean> {
    for (let at = 0; at < rows.length; at += BATCH_MAX) {
      const batch = rows.slice(at, at + BATCH_MAX)
      const keys = ['term', 'rows', ...batch.map(({ id }) => rowKey(id))]
      const args = batch.flatMap(({ id, text }) => [id, text])
      const reply = await this.#run(SAVE, keys, [String(term), String(lifeMs), ...args])
      if (reply !== 1) return false
    }
    return true
  }

  /** The rows of the exchangers before. */
  async *load(): AsyncGenerator<SavedRow> {
    for (let from = 0; ; from += BATCH_MAX) {
      const range = [String(from), String(from + BATCH_MAX - 1)]
      const ids = (await this.#run(IDS, ['rows'], range)) as string[]
      if (ids.length === 0) return
      const texts = (await this.#run(ROWS, ids.map(rowKey), [])) as (string | null)[]
      for (const [at, id] of ids.entries()) {
        const text = texts[at]
        if (typeof text === 'string') yield { id, text }
      }
    }
  }

  async #push(list: string, text: string): Promise<void> {
    const args = [text, String(ARRIVED_MAX), String(ARRIVED_LIFE_MS)]
    const reply = await this.#run(PUSH, [list], args)
    if (reply !== 1) throw new Error(`${ARRIVED_MAX} ${list} wait for the exchanger`)
  }
}

function arrived(text: string): Arrived {
  const space = text.indexOf(' ')
  return { storeMs: Number(text.slice(0, space)), body: text.slice(space + 1) }
}

/** What a row is in Redis: without what other regions are known to have, which is sent again. */
export function rowsText(group: Uint8Array, rows: readonly SharedRow[]): string {
  const kept = rows.map(({ cell, incarnation, entries, acks, applied }) => {
    return { cell, incarnation, entries, acks, applied }
  })
  return JSON.stringify([Buffer.from(group).toString('base64'), kept])
}

export function readRowsText(text: string): {
  readonly group: Buffer
  readonly rows: readonly SharedRow[]
} {
  const [group, kept] = JSON.parse(text) as [string, Omit<SharedRow, 'echoes' | 'changedMs'>[]]
  const rows = kept.map((row) => ({ ...row, echoes: row.acks.map(() => []), changedMs: 0 }))
  return { group: Buffer.from(group, 'base64'), rows }
}
