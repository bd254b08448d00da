/** The section `idempotency` of a policy: requests with `Idempotency-Key` are executed once. */

import {
  idempotencyFailureModes,
  KEPT_BYTES_MAX,
  LEASE_MS_MAX,
  REQUEST_BYTES_MAX,
  retryStatusesDefault,
} from 'tidegate/idempotency'
import { z } from 'zod'
import {
  byteSize,
  duration,
  headerName,
  integer,
  method,
  pathPattern,
  secret,
} from '../field-types.ts'

/** When the limits count a request with a key. */
export const countModes = ['first', 'every', 'unique'] as const

const senders = ['apiKey', 'user', 'organisation', 'certificate', 'ip'] as const

const senderText = `${senders.join(', ')}, { header: name }, { claim: name } or a list of those`

const senderPart = z.union(
  [
    z.enum(senders),
    z.strictObject({ header: headerName.describe('The value of this header field.') }),
    z.strictObject({ claim: z.string().min(1).max(128).describe('This claim of the token.') }),
  ],
  { error: senderText },
)

const sender = z.union([senderPart, z.array(senderPart).min(1).max(4)], { error: senderText })

const SECOND_MS = 1_000
const DAY_MS = 86_400_000
const WAIT_MS_MAX = 60_000
const LEASE_MS_MIN = 300

function between(minMs: number, maxMs: number, error: string) {
  return duration.refine((ms) => ms >= minMs && ms <= maxMs, { error })
}

export const idempotencySection = z
  .strictObject({
    methods: z
      .array(method)
      .min(1)
      .max(32)
      .default(['POST', 'PATCH'])
      .describe('The methods that keys are for.'),
    paths: z
      .array(pathPattern)
      .min(1)
      .max(64)
      .default(['/**'])
      .describe('The paths that keys are for.'),
    required: z.boolean().default(false).describe('True refuses requests without a key (400).'),
    scope: sender
      .default('apiKey')
      .describe('The sender, whose keys are its own. A list is one sender of several parts.'),
    otherwise: z
      .union([z.literal('deny'), sender], { error: `deny, or ${senderText}` })
      .default('deny')
      .describe('For requests without that sender: refuse with 401, or another sender.'),
    count: z
      .enum(countModes)
      .default('first')
      .describe(
        'Which requests the limits count: `first`, those that are executed; `every`, replays as ' +
          'well; `unique`, each key once, however often it is executed.',
      ),
    ttl: between(SECOND_MS, 30 * DAY_MS, 'a time from 1s to 30d')
      .default(DAY_MS)
      .describe('How long a response is replayed, from when it was sent.'),
    wait: between(1, WAIT_MS_MAX, 'a time from 1ms to 60s')
      .default(5_000)
      .describe('How long a repeated request waits for the one under way; then it gets 409.'),
    lease: between(LEASE_MS_MIN, LEASE_MS_MAX, 'a time from 300ms to 5m')
      .default(10_000)
      .describe('The time after which another request may take over from a dead gateway.'),
    onStoreError: z
      .enum(idempotencyFailureModes)
      .default('refuse')
      .describe('While the store does not answer: refuse with 503, or execute unprotected.'),
    onLostOwner: z
      .enum(idempotencyFailureModes)
      .default('execute')
      .describe('If the outcome of a request is unknown: execute it again, or refuse with 409.'),
    retryStatuses: z
      .array(integer(200, 599))
      .max(64)
      .default([...retryStatusesDefault])
      .describe('Statuses that are not kept: the request may be executed again.'),
    keptHeaders: z
      .array(headerName)
      .max(64)
      .default([])
      .describe('Response fields that are kept besides those that describe the body.'),
    responseBytesMax: byteSize
      .refine((bytes) => bytes >= 1 && bytes <= KEPT_BYTES_MAX, { error: 'a size from 1b to 1mb' })
      .default(262_144)
      .describe('The largest body that is kept. The key of a larger one is used up.'),
    requestBytesMax: byteSize
      .refine((bytes) => bytes >= 1 && bytes <= REQUEST_BYTES_MAX, {
        error: 'a size from 1b to 64mb',
      })
      .default(1_048_576)
      .describe('The largest body of a request with a key; a larger one is refused with 413.'),
    replaysPerSecondMax: integer(1, 1_000_000)
      .default(100)
      .describe('Replays for one sender per second and process; then 429.'),
    encryptionKey: secret
      .optional()
      .describe('32 bytes in base64: kept responses are encrypted with it.'),
  })
  .describe('Idempotency keys: a request with `Idempotency-Key` is executed once.')

export type IdempotencySection = z.output<typeof idempotencySection>
