/** A certificate authority for a test, and certificates that it signs. */

import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'

export interface Authority {
  readonly folder: string
  readonly caFile: string
  /** Signs a certificate with a common name and subject alternative names such as `DNS:a`. */
  issue(commonName: string, names: string): { certFile: string; keyFile: string }
}

const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']

/** Its files are deleted when the test ends. */
export function makeAuthority(): Authority {
  const folder = mkdtempSync(join(tmpdir(), 'tidegate-ca-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const caFile = join(folder, 'ca.crt')
  const caKey = join(folder, 'ca.key')
  const self = ['-subj', '/CN=test authority', '-keyout', caKey, '-out', caFile, '-days', '1']
  openssl('req', '-x509', ...newKey, ...self)
  let count = 0
  return {
    folder,
    caFile,
    issue(commonName, names) {
      count += 1
      const [certFile, keyFile, requestFile, namesFile] = ['crt', 'key', 'csr', 'ext'].map((end) =>
        join(folder, `${count}.${end}`),
      ) as [string, string, string, string]
      writeFileSync(namesFile, `subjectAltName=${names}\n`)
      const subject = ['-subj', `/CN=${commonName}`, '-keyout', keyFile, '-out', requestFile]
      openssl('req', '-new', ...newKey, ...subject)
      const signer = ['-CA', caFile, '-CAkey', caKey, '-CAcreateserial', '-days', '1']
      openssl(
        'x509',
        '-req',
        '-in',
        requestFile,
        '-out',
        certFile,
        ...signer,
        '-extfile',
        namesFile,
      )
      return { certFile, keyFile }
    },
  }
}

function openssl(...args: string[]): void {
  const { status, stderr, error } = spawnSync('openssl', args, { encoding: 'utf8' })
  if (status !== 0) throw new Error(`openssl (apt-get install openssl): ${error ?? stderr}`)
}
