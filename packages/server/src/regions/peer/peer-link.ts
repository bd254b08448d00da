/** What calls of another region need of the connection to it. */
export interface PeerLink {
  /** The name of the other region. */
  readonly peer: string
  /** False while the region counts as cut off. */
  readonly isUp: boolean
  /** The time of a message and its answer; undefined before the first one. */
  readonly roundTripMs: number | undefined
  /**
   * Resolves with the answer; rejects with a `TidegateError` of a store. `onLate` is called with an
   * answer that arrives after the deadline.
   */
  request(type: number, body: Uint8Array, onLate?: (body: Uint8Array) => void): Promise<Uint8Array>
}
