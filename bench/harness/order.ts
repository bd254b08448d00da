/** The order of the parts, from the library outwards; parts that are not named here come last. */

const order = [
  'memory',
  'redis',
  'cluster',
  'burst',
  'hot-keys',
  'middleware',
  'gateway',
  'rls',
  'outage',
  'accuracy',
  'admission',
  'cost',
  'metrics',
  'tracing',
]

export function inOrder<T>(items: readonly T[], nameOf: (item: T) => string): T[] {
  const placeOf = (item: T) => {
    const at = order.indexOf(nameOf(item))
    return at === -1 ? order.length : at
  }
  return [...items].sort(
    (one, other) => placeOf(one) - placeOf(other) || (nameOf(one) < nameOf(other) ? -1 : 1),
  )
}
