/**
 * A small policy from environment variables, if there is no file: one token bucket per client
 * address in front of one backend. The result is checked as any policy document is.
 */

export type Environment = Readonly<Record<string, string | undefined>>

/** An invalid setting; the message names the setting, its value and the allowed values. */
export class SettingError extends Error {}

const modes = ['memory', 'standalone', 'sentinel', 'cluster'] as const

const addressDefaults: Readonly<Record<string, string>> = {
  standalone: 'localhost:6379',
  sentinel: 'localhost:26379',
  cluster: 'localhost:7000,localhost:7001,localhost:7002',
}

const UNITS_MAX = 1_000_000_000

/** Returns the document as it would be written in a file. */
export function policyFromEnvironment(environment: Environment): Record<string, unknown> {
  const burst = number(environment, 'BUCKET_SIZE', 10, isWholeFrom1)
  const rate = number(environment, 'REFILL_RATE', 1, isRate)
  const port = number(environment, 'PORT', 8080, isPort)
  return {
    version: 1,
    enabled: isEnabled(environment) ?? true,
    store: storeFrom(environment),
    gateway: { listen: { port } },
    upstreams: { backend: { targets: [backendUrl(environment)] } },
    limits: [{ name: 'client', key: 'ip', otherwise: 'deny', ...bucket(rate, burst) }],
  }
}

/**
 * Returns `TIDEGATE_ENABLED` or the older `RATE_LIMIT_ENABLED`, which override a policy file;
 * undefined if neither is set.
 */
export function isEnabled(environment: Environment): boolean | undefined {
  const [value, older] = [
    truth(environment, 'TIDEGATE_ENABLED'),
    truth(environment, 'RATE_LIMIT_ENABLED'),
  ]
  if (value === undefined || older === undefined || value === older) return value ?? older
  const both =
    `TIDEGATE_ENABLED=${environment.TIDEGATE_ENABLED} and ` +
    `RATE_LIMIT_ENABLED=${environment.RATE_LIMIT_ENABLED}`
  throw new SettingError(`${both} contradict each other; set only TIDEGATE_ENABLED`)
}

function truth(environment: Environment, name: string): boolean | undefined {
  const value = environment[name]?.trim()
  if (value === undefined || value === '') return undefined
  if (/^(true|1|on|yes)$/i.test(value)) return true
  if (/^(false|0|off|no)$/i.test(value)) return false
  throw refused(name, value, 'true or false')
}

/** Rates have up to three decimals: 0.25 per second is 250 in 1,000 seconds. */
function bucket(rate: number, burst: number): { limit: number; per: string; burst: number } {
  for (const seconds of [1, 10, 100, 1_000]) {
    const limit = Math.round(rate * seconds)
    if (Math.abs(limit - rate * seconds) < 1e-9) return { limit, per: `${seconds}s`, burst }
  }
  throw refused('REFILL_RATE', String(rate), 'a number with at most three decimals')
}

function storeFrom(environment: Environment): Record<string, unknown> {
  const { REDIS_MODE, REDIS_ADDR, REDIS_ADDRS } = environment
  const implied = REDIS_ADDR ? 'standalone' : REDIS_ADDRS ? 'cluster' : 'memory'
  const mode = REDIS_MODE || implied
  if (!modes.some((known) => known === mode)) throw refused('REDIS_MODE', mode, modes.join(', '))
  if (mode === 'memory') return { mode }
  const single = REDIS_ADDR || addressDefaults[mode]
  const several = REDIS_ADDRS || REDIS_ADDR || addressDefaults[mode]
  const addresses = (mode === 'standalone' ? single : several) ?? ''
  return {
    mode,
    addresses: addresses.split(',').map((address) => address.trim()),
    ...(mode === 'sentinel' ? { sentinelName: environment.REDIS_SENTINEL_NAME || 'mymaster' } : {}),
    ...(environment.REDIS_USERNAME ? { username: environment.REDIS_USERNAME } : {}),
    ...passwordFrom(environment),
    ...(truth(environment, 'REDIS_TLS') ? { tls: true } : {}),
  }
}

function passwordFrom(environment: Environment): Record<string, unknown> {
  if (environment.REDIS_PASSWORD_FILE)
    return { password: { file: environment.REDIS_PASSWORD_FILE } }
  return environment.REDIS_PASSWORD ? { password: { env: 'REDIS_PASSWORD' } } : {}
}

function backendUrl({ BACKEND_URL }: Environment): string {
  const text = BACKEND_URL || 'http://localhost:8081'
  const url = URL.parse(text)
  if (url !== null && /^https?:$/.test(url.protocol) && url.pathname === '/') return url.origin
  throw refused('BACKEND_URL', text, 'an origin such as http://localhost:8081')
}

function number(
  environment: Environment,
  name: string,
  otherwise: number,
  allowed: { readonly text: string; fits(value: number): boolean },
): number {
  const text = environment[name]
  if (text === undefined || text.trim() === '') return otherwise
  const value = Number(text)
  if (allowed.fits(value)) return value
  throw refused(name, text, allowed.text)
}

const isWholeFrom1 = {
  text: `a whole number from 1 to ${UNITS_MAX}`,
  fits: (value: number) => Number.isSafeInteger(value) && value >= 1 && value <= UNITS_MAX,
}

const isRate = {
  text: `tokens per second, from 0.001 to ${UNITS_MAX}`,
  fits: (value: number) => value >= 0.001 && value <= UNITS_MAX,
}

const isPort = {
  text: 'a port from 0 to 65535',
  fits: (value: number) => Number.isSafeInteger(value) && value >= 0 && value <= 65_535,
}

function refused(name: string, value: string, allowed: string): SettingError {
  return new SettingError(`${name}=${JSON.stringify(value)} is not allowed; allowed: ${allowed}`)
}
