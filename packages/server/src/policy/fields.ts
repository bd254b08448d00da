/**
 * The kinds of values that a policy file is made of: each parses what people write into what the
 * code works with, and says what is allowed where it does not fit.
 */

import { parseIp } from 'tidegate/http'
import { z } from 'zod'

const unitsMs = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const
const unitsBytes = { b: 1, kb: 1_024, mb: 1_024 ** 2, gb: 1_024 ** 3 } as const

/** A leap year: nothing here waits or counts longer. */
const DURATION_MS_MAX = 366 * unitsMs.d

/** A time such as `250ms`, `10s` or `5m`, or whole milliseconds; parsed into milliseconds. */
export const duration = z
  .union([z.string().meta({ pattern: '^[0-9]{1,15}(ms|s|m|h|d)$' }), z.number()])
  .meta({ examples: ['250ms', '10s', '5m'] })
  .transform((value, context) => {
    const parsed = typeof value === 'number' ? value : withUnit(value, unitsMs)
    if (Number.isSafeInteger(parsed) && parsed >= 1 && parsed <= DURATION_MS_MAX) return parsed
    return refuse(context, `a time such as 250ms, 10s, 5m, 1h or 1d, up to 366 days`)
  })

/** A number of bytes such as `16kb` or `10mb`. */
export const byteSize = z
  .union([z.string().meta({ pattern: '^[0-9]{1,15}([kKmMgG]?[bB])$' }), z.number()])
  .meta({ examples: ['16kb', '10mb'] })
  .transform((value, context) => {
    const parsed = typeof value === 'number' ? value : withUnit(value.toLowerCase(), unitsBytes)
    if (Number.isSafeInteger(parsed) && parsed >= 0) return parsed
    return refuse(context, 'a size such as 512b, 16kb, 10mb or 1gb')
  })

export const whole = (min: number, max: number) => {
  const error = `a whole number from ${min} to ${max}`
  return z.int({ error }).min(min, { error }).max(max, { error })
}

export const port = whole(0, 65_535)

export const listen = z.strictObject({
  host: z.string().min(1).max(255).optional().describe('The address to listen on.'),
  port: port.describe('The port; 0 takes any that is free.'),
})

/** An address or a CIDR. */
export const cidr = z.string().refine(isCidr, {
  error: 'an address or a CIDR such as 10.0.0.0/8 or 2001:db8::/32',
})

/** `host:port`; an IPv6 address stands in brackets. */
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

/** No control characters: nothing that could end the line. */
export const headerValue = z
  .string()
  .max(4_096)
  .regex(/^[\t\x20-\x7e\x80-\xff]*$/, { error: 'a header value without control characters' })

export const fileName = z.string().min(1).max(4_096)

/** A secret stands in the environment or in a file of its own, never in the policy. */
export const secret = z
  .union(
    [
      z.strictObject({
        env: z
          .string()
          .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, { error: 'the name of an environment variable' })
          .describe('The environment variable that has it.'),
      }),
      z.strictObject({ file: fileName.describe('The file that has it and nothing else.') }),
    ],
    { error: '{ env: NAME } or { file: PATH }' },
  )
  .describe('Where a secret is: `{ env: NAME }` or `{ file: PATH }`.')

export type Secret = z.output<typeof secret>

/** Names of limits, tiers and upstreams: they appear in headers, logs and metrics. */
export const name = z.string().regex(/^[A-Za-z0-9_.:/-]{1,64}$/, {
  error: '1 to 64 of the characters A-Z a-z 0-9 _ . : / -',
})

export const method = z.string().regex(/^[A-Z]{1,32}$/, { error: 'a method such as GET or POST' })

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
