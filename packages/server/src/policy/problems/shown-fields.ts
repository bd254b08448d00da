/**
 * Which fields of a policy a message may repeat the value of: those that can only hold a number, a
 * word of a list, or a kind of text that was registered as harmless. Every other text may be a
 * secret, or a secret that was written into the wrong field, and is not repeated.
 */

import { z } from 'zod'

type Schema = z.core.$ZodType

interface Harmless {
  readonly isShown: true
}

const registry = z.registry<Harmless>()

/** Registers a kind of text: no value of it is a secret, a wrong one neither. */
export function harmless<T extends Schema>(schema: T): T {
  registry.add(schema, { isShown: true })
  return schema
}

export function isShownField(root: Schema, path: readonly (string | number)[]): boolean {
  let found = alternatives(root)
  for (const part of path) found = found.flatMap((schema) => childrenOf(schema, part))
  const isSecret = found.some((schema) => kindOf(schema) === 'text')
  return !isSecret && found.some((schema) => kindOf(schema) === 'shown')
}

/** Refined and described copies of a registered schema count as it does. */
function isHarmless(schema: Schema): boolean {
  return registry.get(schema)?.isShown === true
}

function kindOf(schema: Schema): 'shown' | 'text' | 'other' {
  if (isHarmless(schema)) return 'shown'
  const { def } = schema._zod
  if (def.type === 'number' || def.type === 'enum') return 'shown'
  if (def.type === 'string') return 'text'
  const { values = [] } = def as Partial<z.core.$ZodLiteralDef<z.core.util.Literal>>
  return values.length > 0 && values.every((value) => typeof value !== 'boolean')
    ? 'shown'
    : 'other'
}

function childrenOf(schema: Schema, part: string | number): readonly Schema[] {
  const { def } = schema._zod
  switch (def.type) {
    case 'array':
      return alternatives((def as z.core.$ZodArrayDef).element)
    case 'record':
      return alternatives((def as z.core.$ZodRecordDef).valueType)
    case 'object': {
      const { shape } = def as z.core.$ZodObjectDef
      const child = Object.hasOwn(shape, part) ? shape[part] : undefined
      return child === undefined ? [] : alternatives(child)
    }
    default:
      return []
  }
}

/** The schemas that a value may have, without their wrappers. */
function alternatives(schema: Schema): readonly Schema[] {
  if (isHarmless(schema)) return [schema]
  const { def } = schema._zod
  switch (def.type) {
    case 'union':
      return (def as z.core.$ZodUnionDef).options.flatMap(alternatives)
    case 'pipe':
      return alternatives((def as z.core.$ZodPipeDef).in)
    case 'optional':
    case 'default':
    case 'prefault':
    case 'nullable':
      return alternatives((def as z.core.$ZodOptionalDef).innerType)
    default:
      return [schema]
  }
}
