/**
 * Values that stages attach to a request for later stages. A key belongs to the file that gives it
 * its meaning, so `message.ts` knows no stage.
 *
 * Values lie in an array by the number of their key, which takes 0.2 µs per request. A `Map` takes
 * 0.5 µs.
 */

/** Identifies a value of type `T`; made once, when a module is loaded. */
export interface ContextKey<T> {
  readonly slot: number
  /** The value until one is set. */
  readonly initial: T
}

/** The values that every request begins with. */
const initialValues: unknown[] = []

export function createContextKey<T>(initial: T): ContextKey<T> {
  return { slot: initialValues.push(initial) - 1, initial }
}

export class RequestContext {
  readonly #values: unknown[] = initialValues.slice()

  get<T>(key: ContextKey<T>): T {
    return this.#values[key.slot] as T
  }

  set<T>(key: ContextKey<T>, value: T): void {
    this.#values[key.slot] = value
  }
}
