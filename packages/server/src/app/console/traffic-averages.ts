/** Averages of the seconds since they were last taken, for the report of this node. */

import type { NodeTraffic } from '../../control/nodes/node-traffic.ts'
import type { TrafficRow } from '../../observability/traffic/traffic-history.ts'

export class TrafficAverages {
  #seconds = 0
  #allowed = 0
  #refused = 0
  #degraded = 0
  #failed = 0
  #p99Ms = Number.NaN

  add({ allowed, denied, blocked, unavailable, shed, degraded, p99Ms }: TrafficRow): void {
    this.#seconds += 1
    this.#allowed += allowed
    this.#refused += denied + blocked
    this.#degraded += degraded
    this.#failed += unavailable + shed
    // The slowest of the seconds; one without a decision has no time.
    if (!(p99Ms <= this.#p99Ms)) this.#p99Ms = Number.isNaN(p99Ms) ? this.#p99Ms : p99Ms
  }

  take(): NodeTraffic {
    const perSecond = (sum: number) => Math.round((sum / Math.max(1, this.#seconds)) * 10) / 10
    const taken = {
      allowedPerSecond: perSecond(this.#allowed),
      refusedPerSecond: perSecond(this.#refused),
      degradedPerSecond: perSecond(this.#degraded),
      failedPerSecond: perSecond(this.#failed),
      p99Ms: Number.isNaN(this.#p99Ms) ? null : Math.round(this.#p99Ms * 1_000) / 1_000,
    }
    this.#seconds = 0
    this.#allowed = 0
    this.#refused = 0
    this.#degraded = 0
    this.#failed = 0
    this.#p99Ms = Number.NaN
    return taken
  }
}
