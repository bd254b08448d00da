/** Connections of the gateway to a server, without the rest of the gateway. */

import { Readable } from 'node:stream'
import { onTestFinished } from 'vitest'
import type { Body } from '../../../packages/server/src/gateway/body/body.ts'
import { bodyError } from '../../../packages/server/src/gateway/body/body-error.ts'
import type { HeaderList } from '../../../packages/server/src/gateway/header-list.ts'
import { clientFactory } from '../../../packages/server/src/gateway/upstreams/client-factory.ts'
import type { PoolOptions } from '../../../packages/server/src/gateway/upstreams/http1/connection-pool.ts'
import type {
  Progress,
  ResponseHandler,
} from '../../../packages/server/src/gateway/upstreams/http1/upstream-connection.ts'
import type {
  UpstreamCall,
  UpstreamClient,
} from '../../../packages/server/src/gateway/upstreams/upstream-client.ts'
import { transportOfTests } from './transport.ts'

type OutgoingRequest = Parameters<UpstreamClient['send']>[0]

/** A body that is still arriving is a stream here, which tests can end and break as they like. */
export type PoolRequest = Omit<OutgoingRequest, 'body'> & {
  readonly body: Buffer | Readable | Body | null
}

export interface PoolAnswer {
  readonly status: number
  readonly headers: HeaderList
  readonly body: string
  readonly trailers: HeaderList | undefined
  readonly interim: readonly number[]
  /** Set if the response is incomplete. */
  readonly code: string | undefined
  readonly progress: Progress | undefined
}

const timeoutsDefault = { connect: 10_000, response: 10_000, idle: 10_000 }

const createClient = await clientFactory(transportOfTests())

/** Destroyed when the test ends. */
export function makePool(
  url: string,
  timeouts: Partial<PoolOptions['timeouts']> = {},
  tls?: PoolOptions['tls'],
): UpstreamClient {
  const pool = createClient({
    origin: new URL(url),
    timeouts: { ...timeoutsDefault, ...timeouts },
    tls,
  })
  onTestFinished(() => pool.destroy())
  return pool
}

export function requestFor({
  body = null,
  ...changes
}: Partial<PoolRequest> = {}): OutgoingRequest {
  return {
    method: 'GET',
    target: '/',
    headers: ['host', 'a.example'],
    body: body instanceof Readable ? bodyOf(body) : body,
    bodyBytes: undefined,
    upgrade: undefined,
    ...changes,
  }
}

function bodyOf(stream: Readable): Body {
  return {
    whole: () => undefined,
    pipe(sink) {
      if (stream.destroyed) sink.fail(stream.errored ?? bodyError('TIDEGATE_BODY_ABORTED'))
      stream.on('data', (chunk: Buffer) => {
        if (!sink.write(chunk)) stream.pause()
      })
      stream.once('end', () => sink.end(undefined, undefined))
      stream.once('error', (error) => sink.fail(error))
      stream.once('close', () => {
        if (!stream.readableEnded) sink.fail(bodyError('TIDEGATE_BODY_ABORTED'))
      })
    },
    resume: () => void stream.resume(),
    cancel: () => void stream.destroy(),
  }
}

export interface AskOptions {
  readonly request?: Partial<PoolRequest>
  /** Replaces methods of the default handler. */
  readonly handler?: Partial<ResponseHandler>
  readonly onConnection?: (connection: UpstreamCall) => void
}

export function ask(
  pool: UpstreamClient,
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
    const full: ResponseHandler = {
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
