import { readFileSync } from 'node:fs'
import { describe, expect, it, test } from 'vitest'
import { readPolicy } from '../read-policy.ts'
import { generatedFiles } from './generate-reference.ts'
import { policyJsonSchema, type SchemaNode } from './json-schema.ts'

const root = new URL('../../../../../', import.meta.url)

describe('the generated file', () => {
  test.each([...generatedFiles()])('%s is what generate-reference.ts makes', (path, text) => {
    const isSame = readFileSync(new URL(path, root), 'utf8') === text
    expect(isSame, 'run: node packages/server/src/policy/schema/generate-reference.ts').toBe(true)
  })
})

describe('the JSON Schema', () => {
  it('explains every field', () => {
    expect(withoutDescription(policyJsonSchema(), '')).toEqual([])
  })

  it('rejects unknown fields', () => {
    expect(openObjects(policyJsonSchema(), '')).toEqual([])
  })
})

describe('a policy in the documents is valid:', () => {
  const pages = [
    'README.md',
    'gateway.md',
    'keys-and-tiers.md',
    'decision-api.md',
    'migrating.md',
    'regions.md',
  ]
  const snippets = pages.flatMap((page) => {
    const text = readFileSync(new URL(page === 'README.md' ? page : `docs/${page}`, root), 'utf8')
    return Array.from(text.matchAll(/```yaml\n(.*?)```/gs), ([, snippet = '']) => snippet)
  })
  const sample = readFileSync(new URL('examples/tidegate.yaml', root), 'utf8')

  test.each([...snippets, sample])('%.60s', (text) => {
    // Some show one section of a file.
    const whole = /^limits:/m.test(text) ? text : `${text}limits: []\n`
    const result = readPolicy(whole, 'tidegate.yaml')
    expect(result.ok ? [] : result.problems.map(({ message }) => message)).toEqual([])
  })

  it('and there are some', () => expect(snippets.length).toBeGreaterThan(8))
})

/** A mapping is explained by its fields, where nothing else is said of it. */
function withoutDescription(node: SchemaNode, path: string): string[] {
  return Object.entries(node.properties ?? {})
    .filter(([, { description, properties }]) => (description ?? properties) === undefined)
    .map(([name]) => `${path}.${name}`)
    .concat(childrenOf(node, path).flatMap(([child, at]) => withoutDescription(child, at)))
}

function openObjects(node: SchemaNode, path: string): string[] {
  const isOpen = node.properties !== undefined && node.additionalProperties !== false
  const inside = childrenOf(node, path).flatMap(([child, at]) => openObjects(child, at))
  return isOpen ? [path, ...inside] : inside
}

function childrenOf(node: SchemaNode, path: string): [SchemaNode, string][] {
  const { properties = {}, items, anyOf = [], additionalProperties } = node
  return [
    ...Object.entries(properties).map(([name, one]): [SchemaNode, string] => [
      one,
      `${path}.${name}`,
    ]),
    ...anyOf.map((one): [SchemaNode, string] => [one, path]),
    ...(items === undefined ? [] : [[items, `${path}[]`] satisfies [SchemaNode, string]]),
    ...(typeof additionalProperties === 'object'
      ? [[additionalProperties, `${path}.*`] satisfies [SchemaNode, string]]
      : []),
  ]
}
