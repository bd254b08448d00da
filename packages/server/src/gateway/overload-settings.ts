/** Derives the settings of the overload controller from the sections of a policy. */

import type { OverloadSettings } from '../overload/overload.ts'
import type { GatewaySection } from '../policy/schema/listener-section.ts'
import type { UpstreamsSection } from '../policy/schema/upstreams-section.ts'

/** The default number of connections; requests with small bodies take about 200 MB. */
const REQUESTS_MAX = 10_000

/** A burst of this size takes 0.1 s, even if upstreams take few requests at a time. */
const REQUESTS_MIN = 1_000

/**
 * By default the gateway has as many requests in flight as its upstreams have slots. Beyond that,
 * upstreams would refuse requests whatever their priority.
 */
export function overloadSettings(
  gateway: GatewaySection,
  upstreams: UpstreamsSection,
): OverloadSettings {
  const { delay, criticalShare, requestsMax } = gateway.overload
  const slots = Object.values(upstreams).map(
    ({ targets, waitingMax }) => targets.length * waitingMax,
  )
  const sum = slots.reduce((total, one) => total + one, 0)
  const taken = sum === 0 ? REQUESTS_MAX : Math.min(Math.max(sum, REQUESTS_MIN), REQUESTS_MAX)
  return { delay, criticalShare, requestsMax: requestsMax ?? taken }
}
