/** A real Envoy that presents a certificate to a rate limit service configured by variables. */

import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { makeCertificate } from '../../support/servers/certificates.ts'
import { freePort, LOOPBACK } from '../../support/servers/ports.ts'
import { makeFolder, removeFolder } from '../../support/servers/server-process.ts'
import { envoyBinary, startEnvoy, startRlsProcess } from './envoy.ts'

const SLOW_MS = 120_000

const config = `
domain: shop
descriptors:
  - key: tenant
    rate_limit: { unit: day, requests_per_unit: 2 }
`

/** The statuses of three requests through an Envoy that fails closed. */
async function statusesWith(clientName: string, hasCertificate: boolean): Promise<number[]> {
  const folder = makeFolder()
  onTestFinished(() => removeFolder(folder))
  const directory = join(folder, 'config')
  mkdirSync(directory)
  writeFileSync(join(directory, 'config.yaml'), config)
  const certificate = makeCertificate(folder)
  const port = await freePort()
  const service = await startRlsProcess(port, directory, {
    GRPC_SERVER_USE_TLS: 'true',
    GRPC_SERVER_TLS_CERT: certificate.certFile,
    GRPC_SERVER_TLS_KEY: certificate.keyFile,
    GRPC_CLIENT_TLS_CACERT: certificate.certFile,
    GRPC_CLIENT_TLS_SAN: clientName,
  })
  onTestFinished(() => service.stop())
  const envoy = await startEnvoy(port, hasCertificate ? certificate : undefined)
  onTestFinished(() => envoy.stop())
  const url = `http://${LOOPBACK}:${envoy.ports.deny}/tenant`
  const statuses: number[] = []
  for (let sent = 0; sent < 3; sent++) {
    statuses.push((await fetch(url, { headers: { 'x-tenant': 'a' } })).status)
  }
  return statuses
}

// `./run.sh test-envoy` installs Envoy and sets TIDEGATE_ENVOY.
describe.skipIf(envoyBinary === undefined)('with TLS on both sides', { timeout: SLOW_MS }, () => {
  test('an Envoy with the right certificate is served', async () => {
    expect(await statusesWith('localhost', true)).toEqual([200, 200, 429])
  })

  test('an Envoy with a certificate for another name is not', async () => {
    expect(await statusesWith('envoy.example', true)).toEqual([500, 500, 500])
  })

  test('an Envoy without one is not', async () => {
    expect(await statusesWith('localhost', false)).toEqual([500, 500, 500])
  })
})
