/** The response to a client that an operator has blocked. It does not reveal the reason. */

import type { LiveBlock } from '../../limits/live/live-entries.ts'
import type { GatewayResponse } from '../message.ts'
import { refusal } from '../refusal.ts'

/** A client that waits for a longer time than a day has given up. */
const RETRY_SECONDS_MAX = 86_400

export function blockedResponse({ answer, expiresAt }: LiveBlock): GatewayResponse {
  if (answer === 403) return refusal(403, 'This client is blocked.')
  const seconds = Math.ceil((expiresAt - Date.now()) / 1_000)
  const retryAfter = String(Math.min(Math.max(1, seconds), RETRY_SECONDS_MAX))
  return refusal(429, 'This client is blocked for a time.', ['retry-after', retryAfter])
}
