/**
 * The port between the protocols of regions and the network: messages of a type, each of which may
 * be lost, doubled or late. The exchanger of a region implements it, and so does the simulator.
 */

/** Types 1 to 15 belong to the link itself. Unknown types are skipped. */
export const messageTypes = {
  sharedRows: 16,
  partition: 32,
} as const

export interface RegionLink {
  readonly self: string
  readonly peers: readonly string[]
  send(to: string, type: number, body: Uint8Array): void
  request(to: string, type: number, body: Uint8Array, deadlineMs: number): Promise<Uint8Array>
  onMessage(type: number, handler: (from: string, body: Uint8Array) => void): void
}

/** The clocks of a region at an event. */
export interface RegionTimes {
  /** Never jumps; for durations. */
  readonly steadyMs: number
  /** The clock of the region's store, which decides about windows. */
  readonly storeMs: number
}
