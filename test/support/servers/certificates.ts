/** Certificates for TLS servers on the loopback address, generated on demand. */

import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { LOOPBACK } from './ports.ts'

export interface Certificate {
  readonly certFile: string
  readonly keyFile: string
  /** The certificate that a client has to trust, in PEM; it is self-signed. */
  readonly ca: string
}

/** Long enough for a test, and useless afterwards. */
const VALID_DAYS = '1'

export function makeCertificate(folder: string): Certificate {
  const certFile = join(folder, 'server.crt')
  const keyFile = join(folder, 'server.key')
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
  const names = ['-subj', '/CN=localhost', '-addext', `subjectAltName=DNS:localhost,IP:${LOOPBACK}`]
  const files = ['-keyout', keyFile, '-out', certFile, '-days', VALID_DAYS]
  const args = ['req', '-x509', ...key, ...names, ...files]
  const { status, stderr, error } = spawnSync('openssl', args, { encoding: 'utf8' })
  if (status !== 0) {
    const reason = error?.message ?? stderr
    throw new Error(`openssl made no certificate (apt-get install openssl): ${reason}`)
  }
  return { certFile, keyFile, ca: readFileSync(certFile, 'utf8') }
}
