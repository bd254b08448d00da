/**
 * Turns the values of a file into fields, each of the type that it has in the reference. Names in a
 * place where they have no meaning are ignored. Values of a wrong type are refused with the
 * messages of Go's yaml.v2, all of a file at once.
 */

import type { JsonObject, JsonValue } from '../wire/struct.ts'
import { RlsConfigError } from './config-error.ts'
import { parseYamlFile, unmarshalText, type YamlMap, type YamlValue } from './yaml-file.ts'

export interface FileFields {
  readonly file: string
  readonly domain: string
  readonly descriptors: readonly DescriptorFields[]
  readonly warnings: readonly string[]
}

export interface DescriptorFields {
  readonly key: string
  readonly value: string
  readonly limit: LimitFields | undefined
  readonly descriptors: readonly DescriptorFields[]
  readonly isShadow: boolean
  readonly isQuota: boolean
  readonly hasDetailedMetric: boolean
  readonly hasValueMetric: boolean
  readonly sharesThreshold: boolean
  readonly metadata: JsonObject | undefined
  readonly keyPrefix: string
  readonly valuePrefix: string
  readonly networks: readonly string[]
  /** Limits of single values; fields that they leave out come from `limit`. */
  readonly limitsPerValue: ReadonlyMap<string, LimitFields>
}

export interface LimitFields {
  readonly requestsPerUnit: number
  readonly unit: string
  readonly isUnlimited: boolean
  readonly name: string
  readonly replaces: readonly string[]
  readonly algorithm: string
  readonly per: string
  readonly burst: number | undefined
  readonly isCalendar: boolean
  readonly timeZone: string
  readonly onStoreError: string
  readonly accuracy: string
}

const UINT32_MAX = 0xffff_ffff

const descriptorKeys = new Set([
  ...['key', 'value', 'rate_limit', 'descriptors', 'shadow_mode', 'quota_mode', 'metadata'],
  ...['detailed_metric', 'value_to_metric', 'share_threshold'],
  ...['key_prefix', 'value_prefix', 'value_cidr', 'per_value'],
])

const limitKeys = new Set([
  ...['unit', 'requests_per_unit', 'unlimited', 'name', 'replaces'],
  ...['algorithm', 'per', 'burst', 'calendar', 'time_zone', 'on_store_error', 'accuracy'],
])

export function decodeFile(file: string, text: string): FileFields {
  const { root, warnings } = parseYamlFile(file, text)
  const decoder = new Decoder(file, [...warnings])
  const fields = {
    file,
    domain: decoder.text(root, 'domain'),
    descriptors: decoder.descriptors(root),
    warnings: decoder.warnings,
  }
  if (decoder.errors.length === 0) return fields
  const lines = decoder.errors.join('\n')
  throw new RlsConfigError(file, `error loading config file: yaml: unmarshal errors:\n${lines}`)
}

class Decoder {
  readonly errors: string[] = []
  readonly warnings: string[]
  readonly #file: string

  constructor(file: string, warnings: string[]) {
    this.#file = file
    this.warnings = warnings
  }

  text(map: YamlMap, name: string): string {
    const value = map.fields.get(name)
    if (value === undefined) return ''
    if (value.kind === 'scalar') return value.tag === 'null' ? '' : value.text
    this.#refuse(value, 'string')
    return ''
  }

  descriptors(map: YamlMap): DescriptorFields[] {
    const value = map.fields.get('descriptors')
    if (value === undefined || isNull(value)) return []
    if (value.kind !== 'list') {
      this.#refuse(value, '[]config.YamlDescriptor')
      return []
    }
    return value.items.flatMap((item) => (item.kind === 'map' ? [this.#descriptor(item)] : []))
  }

  #descriptor(map: YamlMap): DescriptorFields {
    this.#warnOfNames(map, descriptorKeys, 'a descriptor')
    const limit = this.#limit(map.fields.get('rate_limit'))
    return {
      key: this.text(map, 'key'),
      value: this.text(map, 'value'),
      limit,
      descriptors: this.descriptors(map),
      isShadow: this.#flag(map, 'shadow_mode'),
      isQuota: this.#flag(map, 'quota_mode'),
      hasDetailedMetric: this.#flag(map, 'detailed_metric'),
      hasValueMetric: this.#flag(map, 'value_to_metric'),
      sharesThreshold: this.#flag(map, 'share_threshold'),
      metadata: this.#metadata(map.fields.get('metadata')),
      keyPrefix: this.text(map, 'key_prefix'),
      valuePrefix: this.text(map, 'value_prefix'),
      networks: this.#texts(map.fields.get('value_cidr')),
      limitsPerValue: this.#limitsPerValue(map.fields.get('per_value'), limit),
    }
  }

  #limit(value: YamlValue | undefined): LimitFields | undefined {
    if (value === undefined || isNull(value)) return undefined
    if (value.kind !== 'map') {
      this.#refuse(value, 'config.YamlRateLimit')
      return undefined
    }
    this.#warnOfNames(value, limitKeys, 'rate_limit')
    return {
      requestsPerUnit: this.#uint32(value, 'requests_per_unit'),
      unit: this.text(value, 'unit'),
      isUnlimited: this.#flag(value, 'unlimited'),
      name: this.text(value, 'name'),
      replaces: this.#replaces(value.fields.get('replaces')),
      algorithm: this.text(value, 'algorithm'),
      per: this.text(value, 'per'),
      burst: value.fields.has('burst') ? this.#uint32(value, 'burst') : undefined,
      isCalendar: this.#flag(value, 'calendar'),
      timeZone: this.text(value, 'time_zone'),
      onStoreError: this.text(value, 'on_store_error'),
      accuracy: this.text(value, 'accuracy'),
    }
  }

  /** `value: 100`, or `value: { … }` with fields as in `rate_limit`. */
  #limitsPerValue(
    value: YamlValue | undefined,
    common: LimitFields | undefined,
  ): ReadonlyMap<string, LimitFields> {
    const limits = new Map<string, LimitFields>()
    if (value === undefined || isNull(value)) return limits
    if (value.kind !== 'map') {
      this.#refuse(value, 'map[string]config.YamlRateLimit')
      return limits
    }
    for (const [name, own] of value.fields) {
      if (own.kind === 'scalar' && own.tag === 'int' && common !== undefined) {
        limits.set(name, { ...common, requestsPerUnit: this.#uint32(value, name) })
        continue
      }
      const limit = this.#limit(own)
      if (limit === undefined) this.#refuse(own, 'config.YamlRateLimit')
      else limits.set(name, own.kind === 'map' ? withCommon(limit, common, own) : limit)
    }
    return limits
  }

  #replaces(value: YamlValue | undefined): string[] {
    if (value === undefined || isNull(value)) return []
    if (value.kind !== 'list') {
      this.#refuse(value, '[]config.yamlReplaces')
      return []
    }
    return value.items.map((item) => (item.kind === 'map' ? this.text(item, 'name') : ''))
  }

  #flag(map: YamlMap, name: string): boolean {
    const value = map.fields.get(name)
    if (value === undefined || isNull(value)) return false
    if (value.kind === 'scalar' && typeof value.value === 'boolean') return value.value
    this.#refuse(value, 'bool')
    return false
  }

  #uint32(map: YamlMap, name: string): number {
    const value = map.fields.get(name)
    if (value === undefined || isNull(value)) return 0
    const number = value.kind === 'scalar' && value.tag === 'int' ? Number(value.value) : -1
    if (number >= 0 && number <= UINT32_MAX) return number
    this.#refuse(value, 'uint32')
    return 0
  }

  #texts(value: YamlValue | undefined): string[] {
    if (value === undefined || isNull(value)) return []
    const items = value.kind === 'list' ? value.items : [value]
    return items.flatMap((item) => {
      if (item.kind === 'scalar') return [item.text]
      this.#refuse(item, 'string')
      return []
    })
  }

  /** Any values; they are copied into responses. */
  #metadata(value: YamlValue | undefined): JsonObject | undefined {
    if (value === undefined || isNull(value)) return undefined
    if (value.kind === 'map') return objectOf(value)
    throw new RlsConfigError(this.#file, 'error parsing metadata: it is not a map')
  }

  #warnOfNames(map: YamlMap, known: ReadonlySet<string>, place: string): void {
    for (const [name, { line }] of map.fields) {
      if (!known.has(name)) this.warnings.push(`line ${line}: '${name}' means nothing in ${place}`)
    }
  }

  #refuse(value: YamlValue, type: string): void {
    this.errors.push(unmarshalText(value, type))
  }
}

/** Takes fields that the limit of a value leaves out from the common limit. */
function withCommon(
  limit: LimitFields,
  common: LimitFields | undefined,
  { fields }: YamlMap,
): LimitFields {
  if (common === undefined) return limit
  const saysWindow = ['unit', 'per', 'unlimited', 'calendar'].some((name) => fields.has(name))
  const window = saysWindow ? limit : common
  const pick = <K extends keyof LimitFields>(name: string, field: K): LimitFields[K] =>
    (fields.has(name) ? limit : common)[field]
  return {
    requestsPerUnit: pick('requests_per_unit', 'requestsPerUnit'),
    unit: window.unit,
    isUnlimited: window.isUnlimited,
    name: pick('name', 'name'),
    replaces: pick('replaces', 'replaces'),
    algorithm: pick('algorithm', 'algorithm'),
    per: window.per,
    burst: pick('burst', 'burst'),
    isCalendar: window.isCalendar,
    timeZone: window.timeZone,
    onStoreError: pick('on_store_error', 'onStoreError'),
    accuracy: pick('accuracy', 'accuracy'),
  }
}

function isNull(value: YamlValue): boolean {
  return value.kind === 'scalar' && value.tag === 'null'
}

function objectOf({ fields }: YamlMap): JsonObject {
  return Object.fromEntries([...fields].map(([name, value]) => [name, jsonOf(value)]))
}

function jsonOf(value: YamlValue): JsonValue {
  if (value.kind === 'scalar') return value.value
  return value.kind === 'map' ? objectOf(value) : value.items.map(jsonOf)
}
