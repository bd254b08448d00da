/** Closes the parts of a service, the last one that was started first. */

export class Lifecycle {
  readonly #ends: (() => unknown)[] = []
  #closing: Promise<void> | undefined

  /** `end` is called once, after the ends that are added later have resolved. */
  add(end: () => unknown): void {
    this.#ends.push(end)
  }

  /** Further calls return the same promise. */
  close(): Promise<void> {
    this.#closing ??= this.#run()
    return this.#closing
  }

  async #run(): Promise<void> {
    for (const end of this.#ends.splice(0).reverse()) await end()
  }
}

/** Starts a service. If `start` fails, closes the parts that were started, and rejects. */
export async function startWith<T>(start: (lifecycle: Lifecycle) => Promise<T>): Promise<T> {
  const lifecycle = new Lifecycle()
  try {
    return await start(lifecycle)
  } catch (error) {
    await lifecycle.close()
    throw error
  }
}
