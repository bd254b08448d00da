/**
 * The stream of the server, as signals. It is closed while the page is hidden and opened again when
 * it is seen; without data for 4 s the page says that it is stale, and keeps the last numbers.
 * Pages of one browser share a stream: see `shared-stream.ts`.
 */

import { batch, signal } from '@preact/signals'
import type {
  SlowView,
  Snapshot,
  Tick,
  TrafficColumns,
} from '../../server/src/admin/console/console-types.ts'
import { findSession, session } from './api.ts'
import { SharedStream } from './shared-stream.ts'

export type Connection = 'connecting' | 'live' | 'stale'

export const connection = signal<Connection>('connecting')
export const tick = signal<Tick | undefined>(undefined)
export const slow = signal<SlowView | undefined>(undefined)
export const history = signal<TrafficColumns | undefined>(undefined)
export const usedBounds = signal<readonly number[]>([])
/** The time of the last data. */
export const dataMs = signal(0)

const SECONDS_MAX = 900
const STALE_MS = 4_000
/** Between two renewals of the session while the page is used. */
const RENEW_MS = 5 * 60_000

let stream: SharedStream | undefined
let renewedMs = Date.now()

/** Opens the stream of a session, and keeps it open. */
export function startFeed(): void {
  document.addEventListener('visibilitychange', follow)
  session.subscribe(follow)
  setInterval(() => {
    if (document.hidden || session.value === null) return
    if (Date.now() - dataMs.value > STALE_MS && connection.value === 'live') {
      connection.value = 'stale'
    }
  }, 1_000)
  const onUse = () => {
    if (Date.now() - renewedMs < RENEW_MS || !session.value) return
    renewedMs = Date.now()
    void findSession()
  }
  for (const event of ['pointerdown', 'keydown']) addEventListener(event, onUse, { passive: true })
}

function follow(): void {
  const { name, role } = session.value ?? {}
  const isWanted = name !== undefined && !document.hidden
  const id = `${role} ${name}`
  if (stream !== undefined && (!isWanted || stream.id !== id)) {
    stream.close(session.value === null)
    stream = undefined
  }
  if (!isWanted || stream !== undefined) return
  stream = new SharedStream(id, { onEvent, onLost, onRefused: findSession, snapshot })
}

function onEvent(name: string, data: unknown): void {
  if (name === 'snapshot') take(data as Snapshot)
  if (name === 'tick') takeTick(data as Tick)
  if (name === 'slow') slow.value = data as SlowView
  if (name === 'ended') session.value = null
}

function onLost(): void {
  if (connection.value === 'live') connection.value = 'stale'
}

/** Everything that this page knows, for another page that has just been opened. */
function snapshot(): Snapshot | undefined {
  const [now, rest, columns] = [tick.value, slow.value, history.value]
  if (now === undefined || rest === undefined || columns === undefined) return undefined
  return { ...now, ...rest, history: columns, usedBounds: usedBounds.value }
}

function take(snapshot: Snapshot): void {
  batch(() => {
    const { nodes, changes, switch: state, published, canary, controlProblem } = snapshot
    slow.value = { nodes, changes, switch: state, published, canary, controlProblem }
    history.value = snapshot.history
    usedBounds.value = snapshot.usedBounds
    tick.value = snapshot
    seen()
  })
}

function takeTick(next: Tick): void {
  batch(() => {
    tick.value = next
    const before = history.value
    if (before !== undefined && before.atMs.at(-1) !== next.traffic.atMs) {
      const fields = Object.keys(before) as (keyof TrafficColumns)[]
      const columns = fields.map((field) => {
        return [field, [...before[field], next.traffic[field]].slice(-SECONDS_MAX)] as const
      })
      history.value = Object.fromEntries(columns) as unknown as TrafficColumns
    }
    seen()
  })
}

function seen(): void {
  dataMs.value = Date.now()
  connection.value = 'live'
}
