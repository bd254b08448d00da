/** How etcd is reached. */

export interface EtcdSettings {
  /** Such as `https://10.0.0.1:2379`; at least one. */
  readonly endpoints: readonly string[]
  /** Before every key, with a slash at its end, such as `/tidegate/production/`. */
  readonly prefix: string
  /** Contents in PEM. */
  readonly tls?: {
    readonly ca?: Buffer | string | undefined
    readonly cert?: Buffer | string | undefined
    readonly key?: Buffer | string | undefined
  }
  readonly user?: string | undefined
  readonly password?: string | undefined
}
