/** The header fields of a response that are kept with it. */

/** Name, value, name, value; a field of several values has an entry for each. */
export function keptFields(
  entries: Iterable<readonly [string, unknown]>,
  kept: ReadonlySet<string>,
): string[] {
  const fields: string[] = []
  for (const [name, value] of entries) {
    const lower = name.toLowerCase()
    if (!kept.has(lower) || value === undefined || value === null) continue
    for (const one of Array.isArray(value) ? value : [value]) fields.push(lower, String(one))
  }
  return fields
}

/** Like `keptFields`, for a list of name, value, name, value whose names are in lower case. */
export function keptOfList(list: readonly string[], kept: ReadonlySet<string>): string[] {
  const fields: string[] = []
  for (let at = 0; at < list.length; at += 2) {
    const name = list[at] as string
    if (kept.has(name)) fields.push(name, list[at + 1] as string)
  }
  return fields
}

/** The fields by name, each with one value or several. */
export function fieldValues(fields: readonly string[]): ReadonlyMap<string, string | string[]> {
  const values = new Map<string, string | string[]>()
  for (let at = 0; at < fields.length; at += 2) {
    const [name = '', value = ''] = fields.slice(at, at + 2)
    const before = values.get(name)
    values.set(name, before === undefined ? value : [...[before].flat(), value])
  }
  return values
}
