/**
 * TLS connections to upstreams: which certificates are trusted, and which connections are reused.
 */

import { copyFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createServer, type TLSSocket } from 'node:tls'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { namedFiles } from '../../../packages/server/src/policy/named-files.ts'
import { parsePolicy } from '../../../packages/server/src/policy/read-policy.ts'
import { until } from '../../support/servers/until.ts'
import { makeAuthority } from './authority.ts'
import { ask, makePool } from './pool-client.ts'
import { startTestGateway } from './test-gateway.ts'
import { listening } from './test-upstream.ts'

const ok = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
const poison = 'HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison'

type Answer = (socket: TLSSocket) => void

const answerOk: Answer = (socket) => void socket.write(ok)

async function startTls(names: string, answer = answerOk, settings: object = {}) {
  const authority = makeAuthority()
  const { certFile, keyFile } = authority.issue('upstream', names)
  const sockets: TLSSocket[] = []
  const asked: string[] = []
  const options = { cert: readFileSync(certFile), key: readFileSync(keyFile), ...settings }
  const server = createServer(options, (socket) => {
    sockets.push(socket)
    socket.on('error', () => socket.destroy())
    socket.on('data', () => {
      asked.push(String(socket.servername || ''))
      answer(socket)
    })
  })
  const port = await listening(server)
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const ca = readFileSync(authority.caFile)
  const pool = (serverName: string, changes: { ca?: Buffer | undefined; cert?: Buffer } = {}) =>
    makePool(`https://127.0.0.1:${port}`, {}, tlsOf({ ca, serverName, ...changes }))
  return { pool, sockets, asked, port, authority }
}

function tlsOf(tls: { ca: Buffer | undefined; serverName: string; cert?: Buffer }) {
  return { cert: undefined, key: undefined, ...tls }
}

describe('an upstream with TLS', () => {
  test('is asked by its name, and its connection is used again', async () => {
    const { pool, sockets, asked } = await startTls('DNS:api.example')
    const one = pool('api.example')
    for (let round = 0; round < 3; round += 1) expect(await ask(one)).toMatchObject({ body: 'ok' })
    expect(sockets).toHaveLength(1)
    expect(asked).toEqual(Array.from({ length: 3 }, () => 'api.example'))
  })

  test('may be known by its address', async () => {
    const { pool } = await startTls('IP:127.0.0.1')
    expect(await ask(pool('127.0.0.1'))).toMatchObject({ body: 'ok' })
  })

  test.each([
    ['another name', 'DNS:other.example', 'api.example'],
    ['a name where an address is expected', 'DNS:api.example', '127.0.0.1'],
    ['another address', 'IP:127.0.0.2', '127.0.0.1'],
  ])('is refused with a certificate of %s, and is sent nothing', async (_name, names, expected) => {
    const { pool, asked } = await startTls(names)
    const one = pool(expected)
    for (let round = 0; round < 3; round += 1) {
      const { code, progress } = await ask(one)
      expect(code).toBe('ERR_TLS_CERT_ALTNAME_INVALID')
      expect(progress).toEqual({ isSent: false, isAnswered: false })
    }
    expect(asked).toEqual([])
  })

  test('is refused even if a session could be resumed', async () => {
    const { pool, asked } = await startTls('DNS:other.example', answerOk, { maxVersion: 'TLSv1.2' })
    const one = pool('api.example')
    for (let round = 0; round < 3; round += 1) {
      expect((await ask(one)).code).toBe('ERR_TLS_CERT_ALTNAME_INVALID')
    }
    expect(asked).toEqual([])
  })

  test('is refused with a certificate of an unknown authority', async () => {
    const { pool, asked } = await startTls('DNS:api.example')
    const { code, progress } = await ask(pool('api.example', { ca: undefined }))
    expect(code).toBe('UNABLE_TO_VERIFY_LEAF_SIGNATURE')
    expect(progress).toEqual({ isSent: false, isAnswered: false })
    expect(asked).toEqual([])
  })

  test('is refused even with NODE_TLS_REJECT_UNAUTHORIZED=0', async () => {
    vi.stubEnv('NODE_TLS_REJECT_UNAUTHORIZED', '0')
    onTestFinished(() => void vi.unstubAllEnvs())
    const { pool, asked } = await startTls('DNS:api.example')
    const { code } = await ask(pool('api.example', { ca: undefined }))
    expect(code).toBe('UNABLE_TO_VERIFY_LEAF_SIGNATURE')
    expect(asked).toEqual([])
  })

  test('is believed by a renewed file of the same name, which is watched', async () => {
    const { port, authority } = await startTls('IP:127.0.0.1')
    const folder = mkdtempSync(join(tmpdir(), 'tidegate-upstream-tls-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    copyFileSync(makeAuthority().caFile, join(folder, 'ca.pem'))
    const api = { targets: [`https://127.0.0.1:${port}`], tls: { ca: 'ca.pem' } }
    const policy = { upstreams: { api } }
    const { url, change } = await startTestGateway(policy, { folder })
    expect((await fetch(url)).status).toBe(502)
    copyFileSync(authority.caFile, join(folder, 'ca.pem'))
    change(policy)
    expect((await fetch(url)).status).toBe(200)
    const parsed = parsePolicy(policy, 'test')
    expect(parsed.ok && namedFiles(parsed.document)).toEqual(['ca.pem'])
  })

  test('is not reached with a certificate of ours that is none', async () => {
    const { pool, sockets } = await startTls('DNS:api.example')
    const answer = await ask(pool('api.example', { cert: Buffer.from('no certificate') }))
    expect(answer).toMatchObject({ status: 0, progress: { isSent: false, isAnswered: false } })
    expect(sockets).toEqual([])
  })

  test.each(['TLSv1.2', 'TLSv1.3'])('takes up its session again, with %s', async (maxVersion) => {
    const closing = ok.replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n')
    const answer = (socket: TLSSocket) => void socket.write(closing)
    const { pool, sockets } = await startTls('DNS:api.example', answer, { maxVersion })
    const one = pool('api.example')
    await until('a session is used again', async () => {
      expect(await ask(one)).toMatchObject({ body: 'ok' })
      return sockets.at(-1)?.isSessionReused()
    })
  })

  test('is healthy again after it was cut off', async () => {
    let isBreaking = true
    const answer = (socket: TLSSocket) => {
      if (isBreaking) socket.destroy()
      else socket.write(ok)
    }
    const { pool } = await startTls('DNS:api.example', answer)
    const one = pool('api.example')
    expect((await ask(one)).code).toMatch(/^(UPSTREAM_CLOSED|ECONNRESET)$/)
    isBreaking = false
    expect(await ask(one)).toMatchObject({ body: 'ok' })
  })

  test('drops bytes that it sent before a request', async () => {
    // The response fills a TLS record, so that the following bytes are in a record of their own.
    const head = 'HTTP/1.1 200 OK\r\nContent-Length: 16342\r\n\r\n'
    const answer = head.padEnd(16_384, 'x') + poison
    const { pool } = await startTls('DNS:api.example', (socket) => void socket.write(answer))
    const one = pool('api.example')
    for (let round = 0; round < 20; round += 1) {
      let next: ReturnType<typeof ask> | undefined
      const onEnd = () => {
        next = ask(one)
      }
      expect((await ask(one, { handler: { onEnd } })).body).not.toContain('poison')
      expect((await next)?.body).not.toContain('poison')
    }
  })
})
