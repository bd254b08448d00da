/** The fields that a policy may have at a place, by the JSON schema, which is loaded later. */

interface Node {
  readonly $ref?: string
  readonly properties?: Readonly<Record<string, Node>>
  readonly additionalProperties?: Node | boolean
  readonly items?: Node
  readonly anyOf?: readonly Node[]
  readonly oneOf?: readonly Node[]
  readonly allOf?: readonly Node[]
  readonly $defs?: Readonly<Record<string, Node>>
}

let schema: Node | undefined

const HINTS_MAX = 24

/** Loads the schema; completion begins once it is there. */
export async function loadSchema(): Promise<void> {
  const found = await import('../../../server/tidegate.schema.json')
  schema = found.default as unknown as Node
}

/** `before` is the text up to the cursor. Returns names that begin with the last word. */
export function fieldsAfter(before: string): readonly string[] {
  const lines = before.split('\n')
  const last = lines.at(-1) ?? ''
  const typed = /^(\s*(?:- )?\s*)([\w-]*)$/.exec(last)
  if (schema === undefined || typed === null) return []
  const [, indent = '', word = ''] = typed
  const nodes = pathOf(lines, indent).reduce<readonly Node[]>(
    (found, name) => found.flatMap((node) => children(node, name)),
    [schema],
  )
  const names = new Set(
    nodes.flatMap(variants).flatMap(({ properties }) => [...Object.keys(properties ?? {})]),
  )
  return [...names].filter((name) => name.startsWith(word) && name !== word).slice(0, HINTS_MAX)
}

/** The names of the fields around a line, from the outermost; a list adds nothing. */
function pathOf(lines: readonly string[], indent: string): readonly string[] {
  const path: string[] = []
  let depth = indent.length
  for (const line of lines.slice(0, -1).reverse()) {
    const found = /^(\s*(?:- )?)([\w-]+):\s*(\S.*)?$/.exec(line)
    if (found === null) continue
    const [, space = '', name = '', value] = found
    if (space.length >= depth || value !== undefined) continue
    path.unshift(name)
    depth = space.length
    if (depth === 0) break
  }
  return path
}

function children(node: Node, name: string): readonly Node[] {
  return variants(node).flatMap((one) => {
    const more = typeof one.additionalProperties === 'object' ? [one.additionalProperties] : []
    const child = one.properties?.[name]
    return (child === undefined ? more : [child]).flatMap((found) => [
      found,
      ...variants(found).flatMap(({ items }) => (items === undefined ? [] : [items])),
    ])
  })
}

/** The node itself, or those that it stands for. */
function variants(node: Node): readonly Node[] {
  const { $ref, anyOf = [], oneOf = [], allOf = [] } = node
  const target = $ref === undefined ? undefined : schema?.$defs?.[$ref.split('/').at(-1) ?? '']
  const others = [...anyOf, ...oneOf, ...allOf, ...(target === undefined ? [] : [target])]
  return [node, ...others.flatMap(variants)]
}
