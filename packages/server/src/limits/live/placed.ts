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

/**
 * The entry that holds now. An entry without an end does not need the time, which takes as long to
 * read as several look-ups.
 */
export function holding<T extends Expiring>(
  placed: Placed<T> | undefined,
  now: () => number,
): T | undefined {
  for (let one = placed; one !== undefined; one = one.older) {
    const { expiresAt } = one.value
    if (expiresAt === Infinity || expiresAt > now()) return one.value
  }
  return undefined
}

/** Adds an entry to those of its place. */
export function placedOn<T extends Expiring>(placed: Placed<T> | undefined, value: T): Placed<T> {
  if (placed === undefined || value.at >= placed.value.at) return { value, older: placed }
  return { value: placed.value, older: placedOn(placed.older, value) }
}
