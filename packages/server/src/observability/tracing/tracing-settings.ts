/**
 * Settings of traces: the standard environment variables of OpenTelemetry. Tracing is off unless
 * an exporter or its endpoint is configured. A value that cannot be used is refused.
 * https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/
 */

import { type SamplerSettings, samplerNames } from './sampler.ts'

export interface TracingSettings {
  readonly url: string
  /** Their values are secrets. */
  readonly headers: Readonly<Record<string, string>>
  readonly timeoutMs: number
  readonly sampler: SamplerSettings
  /** The attributes of the resource, among them `service.name`. */
  readonly resource: Readonly<Record<string, string>>
}

type Environment = Readonly<Record<string, string | undefined>>

/** Every variable that is read, with its default; docs/tracing.md has the same table. */
export const tracingVariables = {
  OTEL_SDK_DISABLED: 'false',
  OTEL_TRACES_EXPORTER: 'otlp if there is an endpoint, otherwise none',
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'OTEL_EXPORTER_OTLP_ENDPOINT with /v1/traces',
  OTEL_EXPORTER_OTLP_ENDPOINT: 'http://localhost:4318',
  OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: 'OTEL_EXPORTER_OTLP_PROTOCOL',
  OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
  OTEL_EXPORTER_OTLP_TRACES_HEADERS: 'OTEL_EXPORTER_OTLP_HEADERS',
  OTEL_EXPORTER_OTLP_HEADERS: 'none',
  OTEL_EXPORTER_OTLP_TRACES_TIMEOUT: 'OTEL_EXPORTER_OTLP_TIMEOUT',
  OTEL_EXPORTER_OTLP_TIMEOUT: '10000',
  OTEL_TRACES_SAMPLER: 'parentbased_traceidratio with 0.01',
  OTEL_TRACES_SAMPLER_ARG: '1',
  OTEL_SERVICE_NAME: 'tidegate',
  OTEL_RESOURCE_ATTRIBUTES: 'none',
} as const

type Variable = keyof typeof tracingVariables

/** A gateway at full load would export a million spans a minute if it traced every request. */
const RATIO_DEFAULT = 0.01

const TIMEOUT_MS_MAX = 60_000

const VALUE_LENGTH_MAX = 4_096

const SERVICE_NAME = 'service.name'

/** Undefined if tracing is off. Throws with the variable, its value and the allowed values. */
export function tracingSettings(environment: Environment): TracingSettings | undefined {
  const read = (name: Variable): string | undefined => {
    const value = environment[name]?.trim()
    if (value === undefined || value === '') return undefined
    if (value.length <= VALUE_LENGTH_MAX) return value
    throw refused(name, `${value.slice(0, 32)}…`, `at most ${VALUE_LENGTH_MAX} characters`)
  }
  if (!isOn(read)) return undefined
  checkProtocol(read)
  return {
    url: urlOf(read),
    headers: headersOf(read),
    timeoutMs: timeoutOf(read),
    sampler: samplerOf(read),
    resource: resourceOf(read),
  }
}

type Read = (name: Variable) => string | undefined

function isOn(read: Read): boolean {
  const disabled = read('OTEL_SDK_DISABLED')?.toLowerCase() ?? 'false'
  if (disabled !== 'true' && disabled !== 'false') {
    throw refused('OTEL_SDK_DISABLED', disabled, 'true or false')
  }
  const exporter = read('OTEL_TRACES_EXPORTER')
  if (exporter !== undefined && exporter !== 'otlp' && exporter !== 'none') {
    throw refused('OTEL_TRACES_EXPORTER', exporter, 'otlp or none')
  }
  if (disabled === 'true' || exporter === 'none') return false
  const endpoint = read('OTEL_EXPORTER_OTLP_TRACES_ENDPOINT') ?? read('OTEL_EXPORTER_OTLP_ENDPOINT')
  return exporter === 'otlp' || endpoint !== undefined
}

function checkProtocol(read: Read): void {
  for (const name of [
    'OTEL_EXPORTER_OTLP_TRACES_PROTOCOL',
    'OTEL_EXPORTER_OTLP_PROTOCOL',
  ] as const) {
    const protocol = read(name)
    if (protocol === undefined) continue
    if (protocol !== 'http/json') throw refused(name, protocol, 'http/json')
    return
  }
}

function urlOf(read: Read): string {
  const traces = read('OTEL_EXPORTER_OTLP_TRACES_ENDPOINT')
  if (traces !== undefined) return checkUrl('OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', traces).href
  const text = read('OTEL_EXPORTER_OTLP_ENDPOINT') ?? tracingVariables.OTEL_EXPORTER_OTLP_ENDPOINT
  const url = checkUrl('OTEL_EXPORTER_OTLP_ENDPOINT', text)
  url.pathname = `${url.pathname.replace(/\/+$/, '')}/v1/traces`
  return url.href
}

function checkUrl(name: Variable, text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url !== undefined && /^https?:$/.test(url.protocol) && url.username === '') return url
  // It may have a password, so it is not shown.
  const shown = text.includes('@') ? '(not shown)' : text
  throw refused(name, shown, 'a URL with http: or https:, and without credentials')
}

function headersOf(read: Read): Readonly<Record<string, string>> {
  const name = read('OTEL_EXPORTER_OTLP_TRACES_HEADERS')
    ? 'OTEL_EXPORTER_OTLP_TRACES_HEADERS'
    : 'OTEL_EXPORTER_OTLP_HEADERS'
  const allowed = 'name=value pairs with commas between them, in percent-encoding'
  const pairs = pairsOf(read(name) ?? '')
  const isField = (pair: readonly string[]) =>
    /^[\w!#$%&'*+.^`|~-]+$/.test(pair[0] ?? '') && /^[\t -~]*$/.test(pair[1] ?? '')
  if (pairs?.every(isField)) return Object.fromEntries(pairs)
  throw refused(name, '(not shown)', allowed)
}

function timeoutOf(read: Read): number {
  const name = read('OTEL_EXPORTER_OTLP_TRACES_TIMEOUT')
    ? 'OTEL_EXPORTER_OTLP_TRACES_TIMEOUT'
    : 'OTEL_EXPORTER_OTLP_TIMEOUT'
  const text = read(name) ?? tracingVariables.OTEL_EXPORTER_OTLP_TIMEOUT
  const timeoutMs = Number(text)
  if (Number.isSafeInteger(timeoutMs) && timeoutMs >= 1 && timeoutMs <= TIMEOUT_MS_MAX) {
    return timeoutMs
  }
  throw refused(name, text, `milliseconds from 1 to ${TIMEOUT_MS_MAX}`)
}

function samplerOf(read: Read): SamplerSettings {
  const name = read('OTEL_TRACES_SAMPLER')
  const text = read('OTEL_TRACES_SAMPLER_ARG')
  if (name === undefined && text === undefined) return { isParentBased: true, ratio: RATIO_DEFAULT }
  const known = name ?? 'parentbased_traceidratio'
  if (!samplerNames.some((one) => one === known)) {
    throw refused('OTEL_TRACES_SAMPLER', known, samplerNames.join(', '))
  }
  const isParentBased = known.startsWith('parentbased_')
  if (known.endsWith('always_on')) return { isParentBased, ratio: 1 }
  if (known.endsWith('always_off')) return { isParentBased, ratio: 0 }
  const ratio = Number(text ?? tracingVariables.OTEL_TRACES_SAMPLER_ARG)
  if (ratio >= 0 && ratio <= 1) return { isParentBased, ratio }
  throw refused('OTEL_TRACES_SAMPLER_ARG', text ?? '', 'a number from 0 to 1')
}

function resourceOf(read: Read): Readonly<Record<string, string>> {
  const text = read('OTEL_RESOURCE_ATTRIBUTES') ?? ''
  const pairs = pairsOf(text)
  if (pairs === undefined) {
    const allowed = 'key=value pairs with commas between them, in percent-encoding'
    throw refused('OTEL_RESOURCE_ATTRIBUTES', text, allowed)
  }
  const given = Object.fromEntries(pairs)
  const { OTEL_SERVICE_NAME } = tracingVariables
  const service = read('OTEL_SERVICE_NAME') ?? given[SERVICE_NAME] ?? OTEL_SERVICE_NAME
  return { ...given, [SERVICE_NAME]: service }
}

/** Undefined if a part is not a pair, or its value is not valid percent-encoding. */
function pairsOf(text: string): (readonly [string, string])[] | undefined {
  const pairs: (readonly [string, string])[] = []
  for (const part of text.split(',')) {
    if (part.trim() === '') continue
    const at = part.indexOf('=')
    const name = part.slice(0, at).trim()
    if (at < 0 || name === '') return undefined
    try {
      pairs.push([name, decodeURIComponent(part.slice(at + 1).trim())])
    } catch {
      return undefined
    }
  }
  return pairs
}

function refused(name: Variable, value: string, allowed: string): Error {
  return new Error(`${name}: ${JSON.stringify(value)} is not allowed; allowed: ${allowed}`)
}
