/** From the section `store` of a policy to the settings of a store: reads secrets and files. */

import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import type { ConnectionOptions } from 'node:tls'
import type { ReadSecret } from '../policy/secrets.ts'
import type { StoreSection } from '../policy/store-section.ts'
import type { StoreSettings } from './create-store.ts'

/** `folder` is where relative file names begin: that of the policy file. */
export function storeSettings(
  section: StoreSection,
  readSecret: ReadSecret,
  folder: string,
): StoreSettings {
  const { sentinelName, username, database, prefix, durability } = section
  const password = section.password && readSecret(section.password, 'store.password')
  const sentinelPassword =
    section.sentinelPassword && readSecret(section.sentinelPassword, 'store.sentinelPassword')
  const tls = section.tls && tlsOptions(section.tls, folder)
  return {
    mode: section.mode,
    addresses: section.addresses ?? [],
    prefix,
    durability,
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
  const read = (file: string) => readFileSync(resolve(folder, file))
  return {
    ...(tls.ca === undefined ? undefined : { ca: read(tls.ca) }),
    ...(tls.cert === undefined ? undefined : { cert: read(tls.cert) }),
    ...(tls.key === undefined ? undefined : { key: read(tls.key) }),
    ...(tls.serverName === undefined ? undefined : { servername: tls.serverName }),
  }
}
