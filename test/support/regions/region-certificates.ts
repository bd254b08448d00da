/** A CA and a certificate for each region, with the name of the region as its DNS name. */

import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'

export interface RegionCertificate {
  readonly cert: string
  readonly key: string
  readonly ca: string
}

const CURVE = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']

/** Files in the folder, by region. They are valid for a day. */
export function makeRegionCertificates(
  folder: string,
  regions: readonly string[],
): ReadonlyMap<string, RegionCertificate> {
  const file = (name: string) => join(folder, name)
  const ca = file('ca.crt')
  const caKey = file('ca.key')
  const ofCa = ['-subj', '/CN=link', '-keyout', caKey, '-out', ca, '-days', '1']
  openssl('req', '-x509', ...CURVE, ...ofCa)
  const made = regions.map((region) => {
    const [cert, key, request] = [`${region}.crt`, `${region}.key`, `${region}.csr`].map(file)
    const names = file(`${region}.names`)
    writeFileSync(names, `subjectAltName=DNS:${region}\n`)
    openssl('req', ...CURVE, '-subj', `/CN=${region}`, '-keyout', `${key}`, '-out', `${request}`)
    const signed = ['-CA', ca, '-CAkey', caKey, '-CAcreateserial', '-days', '1']
    openssl('x509', '-req', '-in', `${request}`, ...signed, '-extfile', names, '-out', `${cert}`)
    return [region, { cert: `${cert}`, key: `${key}`, ca }] as const
  })
  return new Map(made)
}

function openssl(...args: readonly string[]): void {
  const { status, stderr, error } = spawnSync('openssl', args, { encoding: 'utf8' })
  if (status === 0) return
  const reason = error?.message ?? stderr
  throw new Error(`openssl made no certificate (apt-get install openssl): ${reason}`)
}
