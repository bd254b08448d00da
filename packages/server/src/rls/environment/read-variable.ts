/** Parses environment variables as Go does. An empty variable counts as not set. */

export type Environment = Readonly<Record<string, string | undefined>>

const durationsMs = new Map([
  ['ns', 1e-6],
  ['us', 1e-3],
  ['µs', 1e-3],
  ['ms', 1],
  ['s', 1_000],
  ['m', 60_000],
  ['h', 3_600_000],
])

export function refused(name: string, value: string, allowed: string): Error {
  const shown = /AUTH|URL|PASSWORD|TOKEN$/.test(name) ? 'its value' : JSON.stringify(value)
  return new Error(`${name}: ${shown} is not allowed; allowed: ${allowed}`)
}

export class Variables {
  readonly #environment: Environment

  constructor(environment: Environment) {
    this.#environment = environment
  }

  text(name: string): string | undefined {
    const value = this.#environment[name]
    return value === undefined || value === '' ? undefined : value
  }

  flag(name: string): boolean {
    const value = this.text(name)
    if (value === undefined) return false
    if (/^(1|t|T|TRUE|true|True)$/.test(value)) return true
    if (/^(0|f|F|FALSE|false|False)$/.test(value)) return false
    throw refused(name, value, 'true or false')
  }

  integer(name: string, otherwise: number, min: number, max: number): number {
    const value = this.text(name)
    if (value === undefined) return otherwise
    const number = /^\d{1,15}$/.test(value) ? Number(value) : Number.NaN
    if (number >= min && number <= max) return number
    throw refused(name, value, `a whole number from ${min} to ${max}`)
  }

  port(name: string, otherwise: number): number {
    return this.integer(name, otherwise, 0, 65_535)
  }

  /** A number between 0 and 1. */
  ratio(name: string, otherwise: number): number {
    const value = this.text(name)
    if (value === undefined) return otherwise
    const number = /^\d*\.?\d+$/.test(value) ? Number(value) : Number.NaN
    if (number >= 0 && number <= 1) return number
    throw refused(name, value, 'a number from 0 to 1')
  }

  /** Parses a duration such as `1h30m` or `150us`, in milliseconds. */
  durationMs(name: string, otherwise: number): number {
    const value = this.text(name)
    if (value === undefined) return otherwise
    if (value === '0') return 0
    let sumMs = 0
    const parts = /^(\d{1,15}(?:\.\d{1,9})?(?:ns|us|µs|ms|s|m|h)){1,8}$/.test(value)
      ? value.matchAll(/([\d.]+)([a-zµ]+)/g)
      : []
    for (const [, digits, unit = ''] of parts)
      sumMs += Number(digits) * (durationsMs.get(unit) ?? 0)
    if (sumMs > 0 || /^[0a-zµ.]+$/.test(value)) return sumMs
    throw refused(name, value, 'a time such as 24h, 1h30m, 500ms or 0')
  }

  /** Parses one of the allowed words, in any letter case. */
  oneOf<T extends string>(name: string, otherwise: T, allowed: readonly T[]): T {
    const value = this.text(name)
    if (value === undefined) return otherwise
    const found = allowed.find((one) => one.toLowerCase() === value.toLowerCase())
    if (found !== undefined) return found
    throw refused(name, value, allowed.join(', '))
  }
}
