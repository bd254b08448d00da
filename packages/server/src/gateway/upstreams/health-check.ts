/** Checks targets at an interval. A change counts after several equal results. */

import type { UpstreamSection } from '../../policy/schema/upstreams-section.ts'
import type { ResponseHandler } from './http1/upstream-connection.ts'
import type { Target } from './target.ts'
import { reasonOf } from './upstream-problem.ts'

type HealthCheck = NonNullable<UpstreamSection['healthCheck']>

/** Returns a function that stops the checks. */
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
  let isChecking = false
  const run = async () => {
    if (isChecking) return
    isChecking = true
    const problem = await problemOf(target, check)
    isChecking = false
    const isHealthy = problem === undefined
    streak = isHealthy === target.health.isHealthy ? 0 : streak + 1
    if (streak < (isHealthy ? check.healthyAfter : check.unhealthyAfter)) return
    target.health.onChecked(problem)
    streak = 0
  }
  void run()
  return setInterval(run, check.every).unref()
}

/**
 * Returns why a check fails, or undefined if it succeeds. It uses a new connection: a check must
 * not fail because an idle one was closed.
 */
function problemOf({ pool, host }: Target, check: HealthCheck): Promise<string | undefined> {
  return new Promise((resolve) => {
    let problem: string | undefined
    let timer: NodeJS.Timeout | undefined
    const done = (found: string | undefined) => {
      clearTimeout(timer)
      resolve(found)
    }
    const handler: ResponseHandler = {
      onInterim: () => undefined,
      onHead({ status }) {
        if (status >= 400) problem = `status ${status}`
      },
      onData: () => true,
      onEnd: () => {
        // Connections of checks do not count as slots, so they are not kept.
        connection.destroy()
        done(problem)
      },
      onSwitched: (_head, socket) => {
        socket.destroy()
        done('status 101')
      },
      onError: (error) => done(reasonOf(error)),
    }
    const request = { method: 'GET', target: check.path, headers: ['host', host] }
    const connection = pool.sendOnNewConnection(
      { ...request, body: null, bodyBytes: undefined, upgrade: undefined },
      handler,
    )
    timer = setTimeout(() => connection.abort(new Error('no response in time')), check.timeout)
  })
}
