/** The keys that the store has reported as hot, the latest report of each. */

export interface HotReport {
  readonly limit: string
  readonly key: string
  readonly perSecond: number
}

export interface HotKeyAt extends HotReport {
  readonly atMs: number
}

/** More than a process has at once. */
const KEYS_MAX = 20

const AGE_MS_MAX = 15 * 60_000

export class HotKeys {
  /** By limit and key, the one that was reported longest ago first. */
  readonly #reports = new Map<string, HotKeyAt>()

  add({ limit, key, perSecond }: HotReport): void {
    const id = `${limit}\0${key}`
    this.#reports.delete(id)
    this.#reports.set(id, { limit, key, perSecond, atMs: Date.now() })
    const [oldest] = this.#reports.keys()
    if (this.#reports.size > KEYS_MAX && oldest !== undefined) this.#reports.delete(oldest)
  }

  /** The latest first. */
  read(): readonly HotKeyAt[] {
    const fromMs = Date.now() - AGE_MS_MAX
    return [...this.#reports.values()].filter(({ atMs }) => atMs >= fromMs).reverse()
  }
}
