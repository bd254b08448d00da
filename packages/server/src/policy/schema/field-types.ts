/**
 * The types of values in a policy file. Each parses the written form into the form that the code
 * uses, and its error states what is allowed.
 */

import { parseIp } from 'tidegate/http'
import { z } from 'zod'
import { HOST_PATTERN_ALLOWED, parseHostPattern } from '../../limits/match/host-pattern.ts'
import { isPathPattern, PATH_PATTERN_ALLOWED } from '../../limits/match/path-pattern.ts'
import { harmless } from '../problems/shown-fields.ts'

const unitsMs = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const
const unitsBytes = { b: 1, kb: 1_024, mb: 1_024 ** 2, gb: 1_024 ** 3 } as const

/** A leap year: no use is known for longer times. */
const DURATION_MS_MAX = 366 * unitsMs.d

/** A number without a unit is ambiguous. The library has the same message. */
export function timeError(allowed: string): (issue: { readonly input?: unknown }) => string {
  return ({ input }) => {
    const isNumber = /^[1-9]\d{0,14}$/.test(String(input))
    return isNumber ? `a duration with its unit, such as ${input}s or ${input}ms` : allowed
  }
}

const timeText = timeError('a time such as 250ms, 10s, 5m, 1h or 1d, up to 366 days')

/** A time such as `250ms`, `10s` or `5m`; parsed into milliseconds. */
export const duration = harmless(
  z
    .string({ error: timeText })
    .meta({ pattern: '^[0-9]{1,15}(ms|s|m|h|d)$', examples: ['250ms', '10s', '5m'] })
    .transform((value, context) => {
      const parsed = withUnit(value, unitsMs)
      if (Number.isSafeInteger(parsed) && parsed >= 1 && parsed <= DURATION_MS_MAX) return parsed
      return refuse(context, timeText({ input: value }))
    }),
)

/** A number of bytes such as `16kb` or `10mb`. */
export const byteSize = harmless(
  z
    .union([z.string().meta({ pattern: '^[0-9]{1,15}([kKmMgG]?[bB])$' }), z.number()])
    .meta({ examples: ['16kb', '10mb'] })
    .transform((value, context) => {
      const parsed = typeof value === 'number' ? value : withUnit(value.toLowerCase(), unitsBytes)
      if (Number.isSafeInteger(parsed) && parsed >= 0) return parsed
      return refuse(context, 'a size such as 512b, 16kb, 10mb or 1gb')
    }),
)

export const integer = (min: number, max: number) => {
  const error = `a whole number from ${min} to ${max}`
  return z.int({ error }).min(min, { error }).max(max, { error })
}

export const port = integer(0, 65_535)

export const listen = z.strictObject({
  host: z.string().min(1).max(255).optional().describe('The address to listen on.'),
  port: port.describe('The port; 0 takes any free port.'),
})

/** An address or a CIDR. */
export const cidr = harmless(
  z.string().refine(isCidr, {
    error: 'an address or a CIDR such as 10.0.0.0/8 or 2001:db8::/32',
  }),
)

/** `host:port`; an IPv6 address is in brackets. */
export const hostAndPort = z
  .string()
  .regex(/^(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]{1,255}):\d{1,5}$/, {
    error: 'an address such as localhost:6379 or [::1]:6379',
  })
  .meta({ examples: ['localhost:6379'] })

/** https://www.rfc-editor.org/rfc/rfc9110#section-5.1, in lower case as rules compare it. */
export const headerName = z
  .string()
  .max(128)
  .regex(/^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/, { error: 'the name of a header field' })
  .transform((name) => name.toLowerCase())

/** No control characters: they could end the line. */
export const headerValue = z
  .string()
  .max(4_096)
  .regex(/^[\t\x20-\x7e\x80-\xff]*$/, { error: 'a header value without control characters' })

/** Refuses keys and certificates that were pasted instead of the name of their file. */
export const fileName = z
  .string()
  .min(1)
  .max(4_096)
  .refine((text) => !/^-----BEGIN|[\n\r]/.test(text), { error: 'the name of a file' })

/** A secret is in the environment or in its own file, never in the policy. */
export const secret = z
  .union(
    [
      z.strictObject({
        env: z
          .string()
          .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, { error: 'the name of an environment variable' })
          .describe('The environment variable with the secret.'),
      }),
      z.strictObject({ file: fileName.describe('The file that contains only the secret.') }),
    ],
    { error: '{ env: NAME } or { file: PATH }' },
  )
  .describe('The place of a secret: `{ env: NAME }` or `{ file: PATH }`.')

export type Secret = z.output<typeof secret>

/** Names of limits, tiers and upstreams: they appear in headers, logs and metrics. */
export const name = harmless(
  z.string().regex(/^[A-Za-z0-9_.:/-]{1,64}$/, {
    error: '1 to 64 of the characters A-Z a-z 0-9 _ . : / -',
  }),
)

export const method = harmless(
  z.string().regex(/^[A-Z]{1,32}$/, { error: 'a method such as GET or POST' }),
)

/** A path of the gateway itself, or a part of one. */
export const ownPath = harmless(
  z.string().regex(/^\/[A-Za-z0-9._~/-]{0,127}$/, { error: 'a path such as /health' }),
)

export const pathPattern = harmless(
  z
    .string()
    .refine(isPathPattern, { error: PATH_PATTERN_ALLOWED })
    .meta({ examples: ['/v1/users', '/v1/*/items', '/v1/**'] }),
)

/** Parsed into the form that hosts are compared in. */
export const hostPattern = harmless(
  z
    .string()
    .meta({ examples: ['api.example.com', '*.example.com'] })
    .transform((text, context) => parseHostPattern(text) ?? refuse(context, HOST_PATTERN_ALLOWED)),
)

/** URLs in a policy have no credentials: they are not used, and logs could reveal them. */
export function hasNoUser(text: string): boolean {
  const url = URL.parse(text)
  return url !== null && url.username === '' && url.password === ''
}

function withUnit(text: string, units: Readonly<Record<string, number>>): number {
  const [, digits, unit = ''] = /^(\d{1,15})([a-z]{1,2})$/.exec(text) ?? []
  const factor = Object.hasOwn(units, unit) ? units[unit] : undefined
  return factor === undefined ? Number.NaN : Number(digits) * factor
}

function isCidr(text: string): boolean {
  const [address = '', prefix, ...rest] = text.split('/')
  const ip = parseIp(address)
  if (ip === undefined || rest.length > 0) return false
  if (prefix === undefined) return true
  const isPlain = address.includes(':') === (ip.family === 'ipv6')
  return isPlain && /^\d{1,3}$/.test(prefix) && Number(prefix) <= (ip.family === 'ipv4' ? 32 : 128)
}

function refuse(context: z.RefinementCtx, allowed: string): typeof z.NEVER {
  context.addIssue({ code: 'custom', message: allowed })
  return z.NEVER
}
