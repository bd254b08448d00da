/** Reads the TLS and key files that the sections of a policy name, relative to a folder. */

import { resolve } from 'node:path'
import { readSmallFile } from '../config/read-file.ts'
import { checkTls, readTlsFile, readTlsFiles } from '../config/tls-files.ts'
import type { GatewaySection } from '../policy/schema/listener-section.ts'
import type { UpstreamSection } from '../policy/schema/upstreams-section.ts'
import type { Certificates } from './clients/create-server.ts'
import type { TargetTls } from './upstreams/target.ts'

export function readText(file: string, folder: string): string {
  return readSmallFile(resolve(folder, file)).toString('utf8')
}

/** Throws if the files are not a certificate and its key. */
export function readCertificates(
  { cert, key, clientCa }: NonNullable<GatewaySection['tls']>,
  folder: string,
): Certificates {
  const certificates = {
    cert: readTlsFile(cert, folder),
    key: readTlsFile(key, folder),
    ca: clientCa === undefined ? undefined : readTlsFile(clientCa, folder),
  }
  checkTls(certificates, 'gateway.tls')
  return certificates
}

export function readTargetTls(
  name: string,
  tls: UpstreamSection['tls'],
  folder: string,
): TargetTls | undefined {
  if (tls === undefined) return undefined
  const files = readTlsFiles(tls, folder)
  checkTls(files, `upstreams.${name}.tls`)
  return { ...files, serverName: tls.serverName }
}
