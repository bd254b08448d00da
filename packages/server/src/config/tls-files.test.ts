import { copyFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { makeCertificate } from '../../../../test/support/servers/certificates.ts'
import { makeFolder, removeFolder } from '../../../../test/support/servers/server-process.ts'
import { until } from '../../../../test/support/servers/until.ts'
import { checkTls, followTlsFiles, readTlsFiles, tlsProblems } from './tls-files.ts'

function folder(): string {
  const made = makeFolder()
  onTestFinished(() => removeFolder(made))
  return made
}

test('names each file that cannot be used', () => {
  const { certFile, keyFile } = makeCertificate(folder())
  const place = folder()
  copyFileSync(certFile, join(place, 'cert.pem'))
  copyFileSync(makeCertificate(folder()).keyFile, join(place, 'other-key.pem'))
  writeFileSync(join(place, 'text.pem'), 'text')
  expect(tlsProblems('tls', { cert: certFile, key: keyFile }, place)).toEqual([])
  expect(tlsProblems('tls', { ca: 'none.pem', cert: 'text.pem' }, place)).toEqual([
    'tls, certificates none.pem: there is no such file',
    expect.stringMatching(/^tls\.cert text\.pem: cannot be used: /),
  ])
  expect(tlsProblems('tls', { cert: 'cert.pem', key: 'other-key.pem' }, place)).toEqual([
    expect.stringMatching(/^tls\.key other-key\.pem: cannot be used: .*mismatch/),
  ])
})

test('follows a certificate and its key, and waits until they fit', async () => {
  const [place, first, second] = [folder(), makeCertificate(folder()), makeCertificate(folder())]
  const files = { cert: join(place, 'cert.pem'), key: join(place, 'key.pem') }
  copyFileSync(first.certFile, files.cert)
  copyFileSync(first.keyFile, files.key)
  const applied: string[] = []
  let refused = 0
  const stop = followTlsFiles(files, (contents) => {
    try {
      checkTls(contents, 'tls')
    } catch (error) {
      refused += 1
      throw error
    }
    applied.push(String(contents.key))
  })
  onTestFinished(stop)
  await until('the first pair is applied', () => applied.length === 1)
  copyFileSync(second.certFile, files.cert)
  await until('the pair that does not fit is refused', () => refused > 0)
  copyFileSync(second.keyFile, files.key)
  await until('the new pair is applied', () => applied.length === 2)
  expect(applied[1]).toBe(readFileSync(second.keyFile, 'utf8'))
  expect(readTlsFiles(files).ca).toBeUndefined()
})
