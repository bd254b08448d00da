/** The policy file as a JSON Schema, for editors that complete and check it. */

import { z } from 'zod'
import { durationText } from '../../limits/duration-text.ts'
import { policySchema } from './policy-schema.ts'

/** The parts of a JSON Schema that a policy has. */
export interface SchemaNode {
  readonly type?: string | readonly string[]
  readonly description?: string
  readonly default?: unknown
  readonly examples?: readonly unknown[]
  readonly const?: unknown
  readonly enum?: readonly unknown[]
  readonly format?: string
  readonly pattern?: string
  readonly minimum?: number
  readonly maximum?: number
  readonly properties?: Readonly<Record<string, SchemaNode>>
  readonly required?: readonly string[]
  readonly additionalProperties?: SchemaNode | boolean
  readonly items?: SchemaNode
  readonly anyOf?: readonly SchemaNode[]
}

let made: SchemaNode | undefined

/** The schema of the file as it is written, before transformations. All editors know draft 7. */
export function policyJsonSchema(): SchemaNode {
  made ??= z.toJSONSchema(policySchema, {
    io: 'input',
    target: 'draft-07',
    unrepresentable: 'any',
    override: ({ zodSchema, jsonSchema }) => {
      const { def } = zodSchema._zod
      if (def.type !== 'default' || jsonSchema.default !== undefined) return
      const text = written((def as z.core.$ZodDefaultDef).defaultValue, jsonSchema.examples ?? [])
      if (text !== undefined) jsonSchema.default = text
    },
  }) as SchemaNode
  return made
}

const unitsBytes = { gb: 1_024 ** 3, mb: 1_024 ** 2, kb: 1_024, b: 1 }

/** The default of a parsed field as it would be written, such as `10s` or `16kb`. */
function written(value: unknown, examples: readonly unknown[]): string | undefined {
  if (typeof value === 'string') return value
  if (typeof value !== 'number') return undefined
  const isTime = examples.some((example) => String(example).endsWith('ms'))
  const isSize = examples.some((example) => String(example).endsWith('kb'))
  if (isTime) return durationText(value)
  if (!isSize) return undefined
  const fitting = Object.entries(unitsBytes)
  const [unit = '', size = 1] = fitting.find(([, factor]) => value % factor === 0) ?? []
  return `${value / size}${unit}`
}
