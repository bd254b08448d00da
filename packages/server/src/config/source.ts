/**
 * Where a configuration comes from. A file or a directory is one kind of source; a key-value store
 * and an admin API can be others. A source only reports: which version is live, and what happens to
 * a version that is valid but cannot be used, is decided by the composition root.
 */

export interface ConfigProblem {
  /** One line for people, with the place of the problem. */
  readonly message: string
}

export interface ConfigVersion<T> {
  readonly value: T
  /** Such as `3-9f86d081884c`: the number since the start, and the beginning of the hash. */
  readonly id: string
  /** From 1. */
  readonly sequence: number
  /** When it was loaded, in milliseconds since 1970. */
  readonly loadedAtMs: number
}

export type ConfigResult<T> =
  | ({ readonly ok: true } & ConfigVersion<T>)
  | { readonly ok: false; readonly problems: readonly ConfigProblem[] }

export interface ConfigListener<T> {
  /**
   * A valid version that differs from the one before. Returns the problems if this process cannot
   * use it, such as without a secret; it has reported them, and the version before stays.
   */
  onChange(version: ConfigVersion<T>): readonly ConfigProblem[] | undefined
  /** The source has changed and is not valid. Called once for each content. */
  onRefused(problems: readonly ConfigProblem[]): void
}

export interface ConfigSource<T> {
  /** The last valid version; undefined until there is one. */
  readonly current: ConfigVersion<T> | undefined
  /** Reads the source for the first time. Does not reject. */
  read(): Promise<ConfigResult<T>>
  /** Reports changes since `read`, within a second, until `close`. */
  follow(listener: ConfigListener<T>): void
  /** Reads again at once. Resolves when the outcome has been reported. */
  reload(): Promise<void>
  close(): void
}
