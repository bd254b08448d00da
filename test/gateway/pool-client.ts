/** Connections of the gateway to a server, without the rest of the gateway. */

import { onTestFinished } from 'vitest'
import type { HeaderList } from '../../packages/server/src/gateway/message.ts'
import type {
  AnswerHandler,
  Connection,
  Progress,
} from '../../packages/server/src/gateway/upstreams/http1/connection.ts'
import {
  ConnectionPool,
  type PoolOptions,
} from '../../packages/server/src/gateway/upstreams/http1/connection-pool.ts'

export type PoolRequest = Parameters<ConnectionPool['send']>[0]

export interface PoolAnswer {
  readonly status: number
  readonly headers: HeaderList
  readonly body: string
  readonly trailers: HeaderList | undefined
  readonly interim: readonly number[]
  /** Where there was no whole answer. */
  readonly code: string | undefined
  readonly progress: Progress | undefined
}

const timeoutsDefault = { connect: 10_000, response: 10_000, idle: 10_000 }

/** Destroyed when the test ends. */
export function makePool(
  url: string,
  timeouts: Partial<PoolOptions['timeouts']> = {},
  tls?: PoolOptions['tls'],
): ConnectionPool {
  const pool = new ConnectionPool({
    origin: new URL(url),
    timeouts: { ...timeoutsDefault, ...timeouts },
    tls,
  })
  onTestFinished(() => pool.destroy())
  return pool
}

export function requestFor(changes: Partial<PoolRequest> = {}): PoolRequest {
  return {
    method: 'GET',
    target: '/',
    headers: ['host', 'a.example'],
    body: null,
    bodyBytes: undefined,
    upgrade: undefined,
    ...changes,
  }
}

export interface AskOptions {
  readonly request?: Partial<PoolRequest>
  /** Instead of what would be done otherwise. */
  readonly handler?: Partial<AnswerHandler>
  readonly onConnection?: (connection: Connection) => void
}

export function ask(
  pool: ConnectionPool,
  { request = {}, handler = {}, onConnection = () => undefined }: AskOptions = {},
): Promise<PoolAnswer> {
  return new Promise((resolve, reject) => {
    let [status, body] = [0, '']
    let headers: HeaderList = []
    let hasEnded = false
    const interim: number[] = []
    const end = (rest: Pick<PoolAnswer, 'trailers' | 'code' | 'progress'>) => {
      if (hasEnded) reject(new Error('the handler has heard more than one end'))
      hasEnded = true
      resolve({ status, headers, body, interim, ...rest })
    }
    const full: AnswerHandler = {
      onInterim: (head) => void interim.push(head.status),
      onHead(head) {
        ;({ status, headers } = head)
        handler.onHead?.(head)
      },
      onData(chunk) {
        body += chunk.toString('latin1')
        return handler.onData?.(chunk) ?? true
      },
      onEnd(trailers) {
        end({ trailers, code: undefined, progress: undefined })
        handler.onEnd?.(trailers)
      },
      onSwitched(head, socket) {
        handler.onSwitched?.(head, socket)
        end({ trailers: undefined, code: undefined, progress: undefined })
      },
      onError(error, progress) {
        const code = 'code' in error ? String(error.code) : error.message
        end({ trailers: undefined, code, progress })
      },
    }
    onConnection(pool.send(requestFor(request), full))
  })
}
