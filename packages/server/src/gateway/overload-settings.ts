/** The settings of the overload controller, by the sections of a policy. */

import type { OverloadSettings } from '../overload/overload.ts'
import type { GatewaySection, UpstreamsSection } from '../policy/gateway-section.ts'

/** As many as connections by default, and about 200 MB of requests with small bodies. */
const REQUESTS_MAX = 10_000

/** A burst of this size takes a tenth of a second, also where upstreams take few at a time. */
const REQUESTS_MIN = 1_000

/**
 * Without a maximum of its own, the gateway has as many requests in flight as its upstreams take.
 * With more, the upstreams would refuse the rest without looking at priorities.
 */
export function overloadSettings(
  gateway: GatewaySection,
  upstreams: UpstreamsSection,
): OverloadSettings {
  const { delay, criticalShare, requestsMax } = gateway.overload
  const places = Object.values(upstreams).map(
    ({ targets, waitingMax }) => targets.length * waitingMax,
  )
  const sum = places.reduce((total, one) => total + one, 0)
  const taken = sum === 0 ? REQUESTS_MAX : Math.min(Math.max(sum, REQUESTS_MIN), REQUESTS_MAX)
  return { delay, criticalShare, requestsMax: requestsMax ?? taken }
}
