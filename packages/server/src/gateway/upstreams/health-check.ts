/** Asks targets now and then whether they are well; a change is believed after a few times. */

import type { UpstreamSection } from '../../policy/gateway-section.ts'
import type { Target } from './target.ts'

type HealthCheck = NonNullable<UpstreamSection['healthCheck']>

/** Returns what stops the checks. */
export function watchHealth(
  targets: readonly Target[],
  check: HealthCheck | undefined,
): () => void {
  if (check === undefined) return () => undefined
  const timers = targets.map((target) => watchTarget(target, check))
  return () => {
    for (const timer of timers) clearInterval(timer)
  }
}

function watchTarget(target: Target, check: HealthCheck): NodeJS.Timeout {
  let streak = 0
  let isAsking = false
  const ask = async () => {
    if (isAsking) return
    isAsking = true
    const isWell = await answersWell(target, check)
    isAsking = false
    streak = isWell === target.isHealthy ? 0 : streak + 1
    if (streak < (isWell ? check.healthyAfter : check.unhealthyAfter)) return
    target.isHealthy = isWell
    streak = 0
  }
  void ask()
  return setInterval(ask, check.every).unref()
}

async function answersWell({ pool, serverName }: Target, check: HealthCheck): Promise<boolean> {
  const options = {
    path: check.path,
    method: 'GET',
    servername: serverName,
    signal: AbortSignal.timeout(check.timeout),
  }
  try {
    const { statusCode, body } = await pool.request(options)
    await body.dump()
    return statusCode < 400
  } catch {
    return false
  }
}
