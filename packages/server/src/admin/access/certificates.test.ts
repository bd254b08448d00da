import { mkdirSync, readFileSync } from 'node:fs'
import { request } from 'node:https'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import {
  type Certificate,
  makeCertificate,
} from '../../../../../test/support/servers/certificates.ts'
import { makeFolder, removeFolder } from '../../../../../test/support/servers/server-process.ts'
import { BOOTSTRAP, startAdminService } from '../admin-contract.ts'

/** The certificate of the server is also that of a client; it has signed itself. */
async function setup(certificates: object) {
  const folder = makeFolder()
  onTestFinished(() => removeFolder(folder))
  const own = makeCertificate(folder)
  const foreignFolder = join(folder, 'foreign')
  mkdirSync(foreignFolder)
  const foreign = makeCertificate(foreignFolder)
  const tls = { cert: own.certFile, key: own.keyFile, clientCa: own.certFile }
  const { service } = await startAdminService({
    admin: { token: { env: 'ADMIN_TOKEN' }, tls, certificates },
  })
  const port = service.admin?.address.port
  const ask = (path: string, client?: Certificate, token?: string, method = 'GET') =>
    new Promise<{ status: number | undefined; text: string }>((resolve, reject) => {
      const identity = client && {
        cert: readFileSync(client.certFile),
        key: readFileSync(client.keyFile),
      }
      const headers = {
        ...(token === undefined ? undefined : { authorization: `Bearer ${token}` }),
        ...(method === 'GET' ? undefined : { 'content-type': 'application/json' }),
      }
      const options = { host: '127.0.0.1', port, path, method, ca: own.ca, headers, ...identity }
      const asked = request(options, (response) => {
        let text = ''
        response.on('data', (chunk: Buffer) => {
          text += chunk.toString()
        })
        response.on('end', () => resolve({ status: response.statusCode, text }))
      })
      asked.on('error', reject).end(method === 'GET' ? '' : '{}')
    })
  return { own, foreign, ask }
}

test('a client certificate has the role of its name, and no higher one', async () => {
  const { own, ask } = await setup({ localhost: 'operate' })
  const { status, text } = await ask('/v1/session', own)
  expect(status).toBe(200)
  expect(JSON.parse(text)).toEqual({ kind: 'certificate', name: 'localhost', role: 'operate' })
  expect((await ask('/v1/tokens', own)).status).toBe(403)
  expect((await ask('/v1/session', own, undefined, 'POST')).status).toBe(403)
})

test('a certificate without a role, of another authority or none at all is 401', async () => {
  const { own, ask } = await setup({ 'ops.example': 'admin' })
  expect((await ask('/v1/session', own)).status).toBe(401)
  const other = await setup({ localhost: 'admin' })
  expect((await other.ask('/v1/session', other.foreign)).status).toBe(401)
  expect((await other.ask('/v1/session')).status).toBe(401)
  expect((await other.ask('/v1/session', undefined, BOOTSTRAP)).status).toBe(200)
})
