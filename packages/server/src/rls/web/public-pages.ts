/**
 * The pages for everybody: `/json` judges a request that comes as JSON, `/healthcheck` tells
 * whether the service is well. As in the reference, the method is not looked at.
 *
 * A store that does not answer is 503 here, where the reference says 400.
 */

import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { pathOf, send, sendText } from '../../http-door.ts'
import { MESSAGE_BYTES_MAX, rpcStatus } from '../rpc.ts'
import { requestFromJson, responseToJson } from '../wire/json.ts'
import {
  codes,
  InvalidRequest,
  type RateLimitRequest,
  type RateLimitResponse,
} from '../wire/rate-limit-messages.ts'

/** Who judges. It does not reject. */
export interface JudgePort {
  ask(request: RateLimitRequest): Promise<RateLimitResponse | Refusal>
}

/** Why there is no answer, as a status of gRPC. */
export interface Refusal {
  readonly status: number
  readonly text: string
}

export interface HealthPort {
  readonly isWell: boolean
}

/** JSON is longer than the same message in bytes. */
const BODY_BYTES_MAX = 4 * MESSAGE_BYTES_MAX

const JSON_TYPE = 'application/json'

export function publicDoor(judge: JudgePort, health: HealthPort): RequestListener {
  return (request, response) => {
    const path = pathOf(request)
    if (path === '/healthcheck') {
      const { isWell } = health
      sendText(response, isWell ? 200 : 500, isWell ? 'OK' : '')
    } else if (path === '/json') {
      answer(request, response, judge).catch((error: unknown) => refuse(request, response, error))
    } else sendText(response, 404, '404 page not found\n')
  }
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  judge: JudgePort,
): Promise<void> {
  const outcome = await judge.ask(requestFromJson(await bodyOf(request)))
  if ('status' in outcome) {
    const isInvalid = outcome.status === rpcStatus.invalidArgument
    sendText(response, isInvalid ? 400 : 503, `${outcome.text}\n`)
    return
  }
  send(response, statusOf(outcome), JSON_TYPE, responseToJson(outcome))
}

function statusOf({ overallCode }: RateLimitResponse): number {
  if (overallCode === codes.overLimit) return 429
  return overallCode === codes.ok ? 200 : 500
}

function refuse(request: IncomingMessage, response: ServerResponse, error: unknown): void {
  const isInvalid = error instanceof InvalidRequest
  // What is left of a body that nobody reads would be taken for the next request.
  if (!request.complete) response.setHeader('connection', 'close')
  sendText(response, isInvalid ? 400 : 500, isInvalid ? 'Bad Request\n' : '')
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = []
  let length = 0
  for await (const part of request.iterator({ destroyOnReturn: false })) {
    length += (part as Buffer).length
    if (length > BODY_BYTES_MAX) throw new InvalidRequest('a body that is too long')
    parts.push(part as Buffer)
  }
  return Buffer.concat(parts).toString('utf8')
}
