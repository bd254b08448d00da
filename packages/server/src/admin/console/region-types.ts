/** The data of the screen of regions. Types only, as in console-types.ts. */

/** The regions that share limits, as this node sees them. */
export interface RegionsView {
  readonly self: string
  readonly peers: readonly PeerView[]
  readonly leasedKeys: number
  readonly leasedUnits: number
  readonly limits: readonly RegionLimitView[]
}

export interface PeerView {
  readonly region: string
  readonly isUp: boolean
  /** Why it does not answer. */
  readonly problem: string | null
  readonly roundTripMs: number | null
  /** How far its clock is ahead. */
  readonly clockOffsetMs: number | null
  /** Messages to it and its answers, without TLS and HTTP/2. */
  readonly bytesPerSecond: number
}

export interface RegionLimitView {
  readonly name: string
  readonly mode: string
  /** Decisions per second, by how they were made; those that are 0 are left out. */
  readonly perSecond: readonly { readonly by: string; readonly count: number }[]
  /** What the mode guarantees for this limit. */
  readonly guarantee: string
  readonly warnings: readonly string[]
}
