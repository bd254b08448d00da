/** A google.protobuf.Struct as plain values. */

export type JsonValue = string | number | boolean | null | JsonObject | readonly JsonValue[]

export interface JsonObject {
  readonly [name: string]: JsonValue
}

/** Fields of the first win; objects in both are merged in turn. */
export function mergeStructs(first: JsonObject, second: JsonObject): JsonObject {
  const merged = new Map<string, JsonValue>(Object.entries(first))
  for (const [name, value] of Object.entries(second)) {
    const known = merged.get(name)
    if (known === undefined) merged.set(name, value)
    else if (isObject(known) && isObject(value)) merged.set(name, mergeStructs(known, value))
  }
  return Object.fromEntries(merged)
}

function isObject(value: JsonValue): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
