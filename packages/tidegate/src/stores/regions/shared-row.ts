/**
 * A row is all that a region knows about one key in one cell: for every region the units that it
 * admitted. A cell is a window, or the life of a bucket. Rows merge in any order, and twice: counts
 * grow only, and masks have versions.
 *
 * The cost rule. A region's counter has the limit `known × limit`, in parts of a unit. An own unit
 * costs `whole` parts until every region has counted it. From then on it costs `known` parts in
 * every region, also in those that did not admit it. So regions without messages have their shares,
 * and regions with messages have the limit in common. A unit never costs less than `whole` parts in
 * all regions together.
 *
 * Regions that are silent leave the mask of a region, which then waits for the others only. Units
 * under a mask cost more in each of its regions, so that the silent ones keep their shares.
 */

/** Only its region writes an entry; others merge and relay it. */
export interface SharedEntry {
  readonly region: number
  /** A stamp as text. A region that lost its counts starts another incarnation. */
  readonly incarnation: string
  /** Units admitted in the region. */
  readonly own: number
  /** The units of `own` that all regions have counted. */
  readonly stable: number
  readonly maskVersion: number
  /** A bit for each region that the region waits for. */
  readonly mask: number
}

/** The part of an own entry that a peer has counted. */
export interface Ack {
  readonly own: number
  readonly maskVersion: number
}

export interface SharedRow {
  /** The start of a window, or 0 for a bucket. */
  readonly cell: number
  /** The incarnation of the own entry. */
  readonly incarnation: string
  readonly entries: readonly SharedEntry[]
  /** For each region. */
  readonly acks: readonly Ack[]
  /** The entries that each region is known to have; fewer after it lost its data. */
  readonly echoes: readonly (readonly SharedEntry[])[]
  /** Parts that were added to the counter because of this row. */
  readonly applied: number
  /** When the row changed last, on the steady clock. */
  readonly changedMs: number
}

export interface SharedCosts {
  readonly self: number
  /** Weights of the regions. */
  readonly parts: readonly number[]
  /** The sum of the weights: the cost of an own unit. */
  readonly whole: number
  /** The cost of a unit that every region has counted. */
  readonly known: number
}

/**
 * Incarnations of a region in a window, which are added up. A region that loses its data more often
 * within a window is counted less than it admitted.
 */
export const INCARNATIONS_MAX = 8

/** In a bucket, units of an incarnation before the last two have drained. */
export const BUCKET_INCARNATIONS_MAX = 2

const NO_ACK: Ack = { own: 0, maskVersion: 0 }

export function emptyRow(
  cell: number,
  incarnation: string,
  regions: number,
  changedMs: number,
): SharedRow {
  const acks = Array.from({ length: regions }, () => NO_ACK)
  const echoes = Array.from({ length: regions }, () => [])
  return { cell, incarnation, entries: [], acks, echoes, applied: 0, changedMs }
}

export function costsOf(parts: readonly number[], self: number, blind: number): SharedCosts {
  const whole = parts.reduce((sum, one) => sum + one, 0)
  return { self, parts, whole, known: Math.min((parts[self] ?? 0) * blind, whole) }
}

/**
 * The parts that the entries of a row add to the counter of this region; negative: give back.
 * `mask` has the regions that this one waits for now.
 */
export function targetOf(row: SharedRow, costs: SharedCosts, mask: number): number {
  let target = 0
  for (const entry of row.entries) {
    target += isOwn(row, entry, costs.self)
      ? -givenBack(entry, row, costs)
      : chargedFor(entry, costs, mask)
  }
  return target
}

/** Own units that all regions of the mask have counted no longer cost a whole unit here. */
function givenBack(entry: SharedEntry, row: SharedRow, costs: SharedCosts): number {
  const { whole, known } = costs
  const acked = ackedOf(entry, row, costs)
  const ofMask = partsIn(entry.mask, costs)
  const underMask =
    known >= ofMask ? 0 : ((acked - entry.stable) * whole * (ofMask - known)) / ofMask
  return entry.stable * (whole - known) + Math.floor(underMask)
}

/**
 * A region that is out of reach bears no part of a unit, also if the sender still waits for it:
 * otherwise regions that notice it one after the other use its share in between.
 */
function chargedFor(entry: SharedEntry, costs: SharedCosts, mask: number): number {
  const { whole, known, self } = costs
  if (!isIn(entry.mask, self)) return entry.own * known
  const common = isIn(mask, entry.region) ? entry.mask & mask : entry.mask
  const ofMask = Math.max(partsIn(common, costs), known)
  const underMask = ((entry.own - entry.stable) * whole * known) / ofMask
  return entry.stable * known + Math.ceil(underMask)
}

/** The row after its own entry has learned which units all regions have counted. */
export function withStable(row: SharedRow, costs: SharedCosts): SharedRow {
  const own = ownEntry(row, costs.self)
  if (own === undefined) return row
  const stable = stableOf(own, row, costs)
  if (stable === own.stable) return row
  return { ...row, entries: mergeEntry(row.entries, { ...own, stable }) }
}

/** Own units that all regions have counted. */
function stableOf(entry: SharedEntry, row: SharedRow, costs: SharedCosts): number {
  let stable = entry.own
  for (let region = 0; region < costs.parts.length; region++) {
    if (region !== costs.self) stable = Math.min(stable, row.acks[region]?.own ?? 0)
  }
  return Math.max(stable, entry.stable)
}

/** Own units that all regions of the mask have counted, with that mask. */
function ackedOf(entry: SharedEntry, row: SharedRow, costs: SharedCosts): number {
  let acked = entry.own
  for (let region = 0; region < costs.parts.length; region++) {
    if (region === costs.self || !isIn(entry.mask, region)) continue
    const ack = row.acks[region] ?? NO_ACK
    acked = Math.min(acked, ack.maskVersion === entry.maskVersion ? ack.own : 0)
  }
  return Math.max(acked, entry.stable)
}

/** The acknowledgements after a peer has reported that it has the own entry. */
export function acksWith(row: SharedRow, peer: number, entry: SharedEntry): readonly Ack[] {
  const { own, maskVersion } = row.acks[peer] ?? NO_ACK
  return row.acks.with(peer, {
    own: Math.max(own, entry.own),
    maskVersion: Math.max(maskVersion, entry.maskVersion),
  })
}

/** The own entry of a row, if the region admitted units there. */
export function ownEntry(row: SharedRow, self: number): SharedEntry | undefined {
  return row.entries.find((entry) => isOwn(row, entry, self))
}

export function isOwn(row: SharedRow, entry: SharedEntry, self: number): boolean {
  return entry.region === self && entry.incarnation === row.incarnation
}

/** Adds an entry, or merges it with the one of the same region and incarnation. */
export function mergeEntry(
  entries: readonly SharedEntry[],
  entry: SharedEntry,
): readonly SharedEntry[] {
  const at = entries.findIndex((known) => isSame(known, entry))
  if (at < 0) return [...entries, entry]
  const known = entries[at] as SharedEntry
  const merged = merge(known, entry)
  return merged === known ? entries : entries.with(at, merged)
}

function merge(known: SharedEntry, entry: SharedEntry): SharedEntry {
  const isNewer = entry.maskVersion > known.maskVersion
  if (entry.own <= known.own && entry.stable <= known.stable && !isNewer) return known
  const { maskVersion, mask } = isNewer ? entry : known
  return {
    ...known,
    own: Math.max(known.own, entry.own),
    stable: Math.max(known.stable, entry.stable),
    maskVersion,
    mask,
  }
}

/**
 * The entries that a peer is not known to have, and should be sent; `all` is the mask with all
 * regions. The peer's own entries are not a reason to send the row.
 */
export function newsOf(
  { entries, echoes }: SharedRow,
  peer: number,
  all: number,
): readonly SharedEntry[] {
  const echo = echoes[peer] ?? []
  const news = entries.filter((entry) => isNews(entry, echo, all))
  return news.every(({ region }) => region === peer) ? [] : news
}

/**
 * The entries of an answer: those that the peer sent, which is the acknowledgement, and those that
 * it is not known to have. An acknowledgement has all units that were admitted without the peer's.
 */
export function answerOf(
  { entries, echoes }: SharedRow,
  peer: number,
  all: number,
  sent: readonly SharedEntry[],
): readonly SharedEntry[] {
  const echo = echoes[peer] ?? []
  return entries.filter(
    (entry) => sent.some((one) => isSame(one, entry)) || isNews(entry, echo, all),
  )
}

/**
 * What the peer is known to have after it sent entries of a row: each as it was sent last, also if
 * an earlier message had more, because a store can go back to an older state. If the peer's own
 * count went back, the other entries that it had may be lost as well.
 */
export function echoWith(
  { entries, echoes }: SharedRow,
  peer: number,
  sent: readonly SharedEntry[],
): SharedRow['echoes'] {
  const wentBack = sent.some((entry) => {
    if (entry.region !== peer) return false
    const known = entries.find((one) => isSame(one, entry))
    return known !== undefined && known.own > entry.own
  })
  const before = wentBack ? [] : (echoes[peer] ?? [])
  const others = before.filter((known) => !sent.some((entry) => isSame(known, entry)))
  return echoes.with(peer, [...others, ...sent])
}

/** True if a region that is known to have `echo` should be sent the entry. */
function isNews(entry: SharedEntry, echo: readonly SharedEntry[], all: number): boolean {
  const known = echo.find((other) => isSame(other, entry))
  if (known === undefined) return true
  if (entry.own > known.own || entry.maskVersion > known.maskVersion) return true
  // With all regions in the mask, a unit costs as much before it is stable as afterwards.
  return entry.mask !== all && entry.stable > known.stable
}

export function isSame(one: SharedEntry, other: SharedEntry): boolean {
  return one.region === other.region && one.incarnation === other.incarnation
}

/** Units of a row that this region knows of. */
export function knownUnits(row: SharedRow): number {
  let units = 0
  for (const { own } of row.entries) units += own
  return units
}

function partsIn(mask: number, { parts }: SharedCosts): number {
  let sum = 0
  for (let region = 0; region < parts.length; region++) {
    if (isIn(mask, region)) sum += parts[region] as number
  }
  return sum
}

function isIn(mask: number, region: number): boolean {
  return (mask & (1 << region)) !== 0
}
