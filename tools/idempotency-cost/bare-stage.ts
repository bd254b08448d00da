/**
 * The floor: a stage that writes two values to Redis for each request with a key, and does nothing
 * else. `bare-gateway.ts` puts it into the gateway in place of the stage for idempotency keys. The
 * values have the sizes of a claim and of a result, and travel in batches of one `MSET`, under the
 * same rule as the calls of the real store: 24 of them, or those of 2 ms.
 */

import { randomUUID } from 'node:crypto'
import { Redis } from 'ioredis'
import type { Stage } from '../../packages/server/src/gateway/pipeline.ts'
import type { IdempotencyStages } from '../../packages/server/src/gateway/stages/idempotency/idempotency.ts'

const BATCH_MIN = 24
const HELD_MS = 2
const CLAIM = 'R'.repeat(93)
const RESULT = 'D'.repeat(165)
const NAME = 'n'.repeat(10)

const client = new Redis({ port: Number(process.env.BARE_REDIS_PORT), host: '127.0.0.1' })
let waiting: string[] = []
let callbacks: (() => void)[] = []
let timer: NodeJS.Timeout | undefined

function flush(): void {
  clearTimeout(timer)
  timer = undefined
  const done = callbacks
  const sent = client.mset(...waiting)
  waiting = []
  callbacks = []
  sent.then(
    () => {
      for (const callback of done) callback()
    },
    (error) => {
      throw error
    },
  )
}

function write(key: string, value: string, callback: () => void): void {
  waiting.push(key, value)
  callbacks.push(callback)
  if (callbacks.length >= BATCH_MIN) flush()
  else timer ??= setTimeout(flush, HELD_MS)
}

const stage: Stage = (request, next) => {
  if (request.header('idempotency-key') === undefined) return next(request)
  return new Promise((resolve, reject) => {
    const key = NAME + randomUUID()
    write(key, CLAIM, () => {
      Promise.resolve(next(request)).then((response) => {
        write(key, RESULT, () => resolve(response))
      }, reject)
    })
  })
}

export function idempotencyStages(): IdempotencyStages {
  const keysAfterLimits: Stage = (request, next) => next(request)
  return { keysBeforeLimits: stage, keysAfterLimits, core: undefined }
}
