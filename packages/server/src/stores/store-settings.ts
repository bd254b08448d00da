/** Turns the section `store` of a policy into settings of a store: reads secrets and files. */

import type { ConnectionOptions } from 'node:tls'
import type { ReadSecret } from '../config/secrets.ts'
import { readTlsFiles } from '../config/tls-files.ts'
import type { StoreSection } from '../policy/schema/store-section.ts'
import type { StoreSettings } from './create-store.ts'

/** `folder` is where relative file names begin: the folder of the policy file. */
export function storeSettings(
  section: StoreSection,
  readSecret: ReadSecret,
  folder: string,
): StoreSettings {
  const { sentinelName, username, database, prefix, durability, buckets } = section
  const password = section.password && readSecret(section.password, 'store.password')
  const sentinelPassword =
    section.sentinelPassword && readSecret(section.sentinelPassword, 'store.sentinelPassword')
  const tls = section.tls && tlsOptions(section.tls, folder)
  return {
    mode: section.mode,
    addresses: section.addresses ?? [],
    prefix,
    durability,
    ...(buckets === undefined ? undefined : { buckets }),
    ...(sentinelName === undefined ? undefined : { sentinelName }),
    ...(username === undefined ? undefined : { username }),
    ...(database === undefined ? undefined : { database }),
    ...(password === undefined ? undefined : { password }),
    ...(sentinelPassword === undefined ? undefined : { sentinelPassword }),
    ...(tls === undefined ? undefined : { tls }),
  }
}

function tlsOptions(tls: NonNullable<StoreSection['tls']>, folder: string): ConnectionOptions {
  if (tls === true) return {}
  return {
    ...readTlsFiles(tls, folder),
    ...(tls.serverName === undefined ? undefined : { servername: tls.serverName }),
  }
}
