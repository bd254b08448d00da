/** Entries by place: the newest one that has not expired holds, and its end revives older ones. */

interface Expiring {
  readonly expiresAt: number
  readonly at: number
}

/** The entries of one place, the newest first. */
export interface Placed<T> {
  readonly value: T
  readonly older: Placed<T> | undefined
}

export type Places<Key, T> = Map<Key, Placed<T>>

export function place<Key, T extends Expiring>(places: Places<Key, T>, key: Key, value: T): void {
  places.set(key, placedOn(places.get(key), value))
}

/** The entry that holds at this time. */
export function holding<T extends Expiring>(
  placed: Placed<T> | undefined,
  nowMs: number,
): T | undefined {
  for (let one = placed; one !== undefined; one = one.older) {
    if (one.value.expiresAt > nowMs) return one.value
  }
  return undefined
}

/** Adds an entry to those of its place. */
export function placedOn<T extends Expiring>(placed: Placed<T> | undefined, value: T): Placed<T> {
  if (placed === undefined || value.at >= placed.value.at) return { value, older: placed }
  return { value: placed.value, older: placedOn(placed.older, value) }
}
