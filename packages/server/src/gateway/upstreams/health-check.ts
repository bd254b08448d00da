/** Asks targets now and then whether they are well; a change is believed after a few times. */

import type { UpstreamSection } from '../../policy/gateway-section.ts'
import type { AnswerHandler } from './http1/connection.ts'
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

/** On a connection of its own: a check must not fail because of what others have left. */
function answersWell({ pool, host }: Target, check: HealthCheck): Promise<boolean> {
  return new Promise((resolve) => {
    let isWell = false
    let timer: NodeJS.Timeout | undefined
    const done = (answer: boolean) => {
      clearTimeout(timer)
      resolve(answer)
    }
    const handler: AnswerHandler = {
      onInterim: () => undefined,
      onHead({ status }) {
        isWell = status < 400
      },
      onData: () => true,
      onEnd: () => {
        // Kept for others, those of many checks would be more than a target is to have.
        connection.destroy()
        done(isWell)
      },
      onSwitched: (_head, socket) => {
        socket.destroy()
        done(false)
      },
      onError: () => done(false),
    }
    const request = { method: 'GET', target: check.path, headers: ['host', host] }
    const connection = pool.sendApart(
      { ...request, body: null, bodyBytes: undefined, upgrade: undefined },
      handler,
    )
    timer = setTimeout(() => connection.abort(new Error('not in time')), check.timeout)
  })
}
