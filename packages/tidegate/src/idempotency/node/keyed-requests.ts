/**
 * How the plugin for limits in Fastify learns which requests have a key, so that it counts them
 * after the keys. The two plugins have nothing else in common.
 */

export type IsKeyed = (method: string, headers: Readonly<Record<string, unknown>>) => boolean

const registered = Symbol.for('tidegate.idempotency')

/** Remembers the keys of an app, and of the apps within it. */
export function rememberKeys(app: object, isKeyed: IsKeyed): void {
  const value = [...keysOf(app), isKeyed]
  Object.defineProperty(app, registered, { value, configurable: true })
}

/** The keys that were registered so far, also by the apps around this one. */
export function keysOf(app: object): readonly IsKeyed[] {
  return (Reflect.get(app, registered) as readonly IsKeyed[] | undefined) ?? []
}
