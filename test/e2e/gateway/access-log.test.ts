/** The access log of a real process: hostile requests, protocols, rotation, failing places. */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { FrameClient, makeTls, requestFields } from '../../security/frame-client.ts'
import { programFile } from '../../support/program.ts'
import { freePort } from '../../support/servers/ports.ts'
import { startRedis } from '../../support/servers/redis.ts'
import { makeFolder, removeFolder } from '../../support/servers/server-process.ts'
import { until } from '../../support/servers/until.ts'
import { openRaw, sendRaw } from './raw-client.ts'

const SECRET = 'canary-5ecre7'

/** As goaccess reads `--log-format=COMBINED`, with the escapes of nginx. */
const quoted = '"(?:[^"\\\\]|\\\\x[0-9A-F]{2})*"'
const time = '\\[\\d\\d/[A-Z][a-z]{2}/\\d{4}:\\d\\d:\\d\\d:\\d\\d \\+0000\\]'
const combined = new RegExp(`^\\S+ - \\S+ ${time} ${quoted} \\d{3} \\d+ ${quoted} ${quoted}$`)

async function startBackend(): Promise<string> {
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      if (request.url?.startsWith('/chunks')) for (const one of chunks) response.write(one)
      if (request.url?.startsWith('/silent')) return
      response.end(`${SECRET} ${Buffer.concat(chunks).length}`)
    })
  })
  const sockets = new WebSocketServer({ server })
  sockets.on('connection', (socket) => {
    socket.on('message', (data, isBinary) => socket.send(data, { binary: isBinary }))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    for (const socket of sockets.clients) socket.terminate()
    server.close()
    server.closeAllConnections()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

interface StartOptions {
  readonly tls?: object
  readonly store?: object
  readonly args?: readonly string[]
}

async function start(accessLog: object, { tls, store, args = [] }: StartOptions = {}) {
  const folder = makeFolder()
  onTestFinished(() => removeFolder(folder))
  const [port, adminPort] = [await freePort(), await freePort()]
  const listen = { host: '127.0.0.1', port }
  const file = join(folder, 'tidegate.yaml')
  const document = {
    gateway: {
      ...{ listen, accessLog, timeouts: { unready: '10ms', drain: '2s' } },
      ...(tls && { tls }),
    },
    admin: { listen: { port: adminPort } },
    ...(store && { store }),
    upstreams: { api: { targets: [await startBackend()] } },
    limits: [{ name: 'few', match: { path: '/few' }, key: 'ip', limit: 1, per: '1h' }],
  }
  writeFileSync(file, JSON.stringify(document))
  const program = programFile
  const child = spawn(process.execPath, [program, 'gateway', '--config', file, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  onTestFinished(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    child.kill('SIGKILL')
    await once(child, 'exit')
  })
  let output = ''
  let errors = ''
  child.stdout.on('data', (part: Buffer) => {
    output += part.toString('latin1')
  })
  child.stderr.on('data', (part: Buffer) => {
    errors += part.toString('latin1')
  })
  const url = `http://127.0.0.1:${port}`
  await until('the gateway is ready', async () => {
    if (child.exitCode !== null) return true
    const own = tls === undefined ? url : `http://127.0.0.1:${adminPort}`
    return (await fetch(`${own}/ready`)).ok
  })
  return {
    ...{ child, port, url, folder },
    output: () => output,
    errors: () => errors,
    metrics: async () => (await fetch(`http://127.0.0.1:${adminPort}/metrics`)).text(),
    async stop(): Promise<number | null> {
      child.kill('SIGTERM')
      await once(child, 'exit')
      return child.exitCode
    },
  }
}

const linesOf = (text: string) => text.split('\n').slice(0, -1)

/** The lines of requests in the output of a gateway. */
function accessOf(output: string): Readonly<Record<string, unknown>>[] {
  const lines = linesOf(output).filter((line) => line.startsWith('{'))
  return lines.map((line) => JSON.parse(line)).filter(({ event }) => event === 'gateway.access')
}

const head = (target: string, ...fields: string[]) => {
  const lines = [`GET ${target} HTTP/1.1`, 'Host: a.example', ...fields, 'Connection: close']
  return `${lines.join('\r\n')}\r\n\r\n`
}

const hostile = [
  head(`/?token=${SECRET}`, `Authorization: Bearer ${SECRET}`, `Cookie: a=${SECRET}`),
  head('/quote', 'User-Agent: " 200 0 "-" "forged'),
  head('/control', 'User-Agent: \x1b[31m\x9b31m\x07 {"event":"forged"}'),
  head('/bidi', 'User-Agent: \xe2\x80\xae\xe2\x80\xa8gpj.exe'),
  head('/long', `User-Agent: ${'x'.repeat(10_240)}`),
  head('/referer', `Referer: https://user:${SECRET}@b.example/x?token=${SECRET}`),
  head(`/${'y'.repeat(5_000)}`, `X-Api-Key: ${SECRET}`),
  head('/%0a{"event":"forged"}'),
  'hello\r\n\r\n',
  head('/few'),
  head('/few'),
]

describe('the access log', () => {
  test('has one line for each request, whatever it sends, and no secret', async () => {
    const gateway = await start({})
    for (const bytes of hostile) await sendRaw(gateway.port, bytes)
    const body = '4\r\nabcd\r\n3\r\nefg\r\n0\r\n\r\n'
    const chunked = head('/chunks', 'Transfer-Encoding: chunked').replace('GET', 'POST')
    await sendRaw(gateway.port, `${chunked}${body}`)
    const gone = openRaw(gateway.port)
    gone.socket.write(head('/silent'))
    await until('it is there', async () => {
      return (await gateway.metrics()).includes('tidegate_overload_requests 1')
    })
    gone.socket.destroy()
    const lines = () => linesOf(gateway.output()).map((line) => JSON.parse(line))
    const access = () => accessOf(gateway.output())
    await until('all are logged', () => access().length === hostile.length + 2)
    expect(await gateway.stop()).toBe(0)
    expect(access()).toHaveLength(hostile.length + 2)
    expect(gateway.output() + gateway.errors()).not.toMatch(/5ecre7|forged"\}$|127\.0\.0\.1 /m)
    expect(gateway.output()).toMatch(/^[\x20-\x7e\n]*$/)
    expect(Math.max(...linesOf(gateway.output()).map(({ length }) => length))).toBeLessThan(4_096)
    const byPath = (path: string) => access().filter((line) => line.path === path)
    expect(byPath('/')).toMatchObject([
      {
        ...{ client_ip: '127.0.0.0', method: 'GET', host: 'a.example', protocol: 'HTTP/1.1' },
        ...{ status: 200, bytes_in: 0, bytes_out: SECRET.length + 2, route: '/**' },
        ...{ upstream: 'api', target: expect.stringMatching(/^http/), user_agent: null },
      },
    ])
    expect(byPath('/chunks')).toMatchObject([{ bytes_in: 7, bytes_out: SECRET.length + 9 }])
    expect(byPath('/silent')).toMatchObject([{ status: 499, aborted: true, bytes_out: 0 }])
    expect(byPath('/few').map(({ status }) => status)).toEqual([200, 429])
    // A head with control characters, an invalid path, and bytes that are not a request.
    expect(access().filter(({ status }) => status === 400)).toHaveLength(3)
    const denied = lines().find(({ outcome }) => outcome === 'denied')
    expect(byPath('/few').map(({ request_id }) => request_id)).toContain(denied?.request_id)
  })

  test('has one line for each stream of an HTTP/2 connection', async () => {
    const { tls } = makeTls()
    const gateway = await start({ format: 'json' }, { tls })
    const client = await FrameClient.connect(gateway.port)
    const ids = ['/few', '/few'].map((path) => client.request(requestFields(path)))
    await until('both have a response', () => ids.every((id) => client.answer(id).isEnded))
    await until('both are logged', () => accessOf(gateway.output()).length >= 2)
    expect(await gateway.stop()).toBe(0)
    const lines = accessOf(gateway.output())
    expect(lines.map(({ status }) => status).sort()).toEqual([200, 429])
    for (const line of lines) {
      expect(line).toMatchObject({ protocol: 'HTTP/2.0', method: 'GET', path: '/few', bytes_in: 0 })
    }
    expect(lines.find(({ status }) => status === 200)?.bytes_out).toBe(SECRET.length + 2)
    expect(new Set(lines.map(({ request_id }) => request_id)).size).toBe(2)
  })

  test('has one line for a WebSocket, with its bytes, when it has ended', async () => {
    const gateway = await start({})
    const socket = new WebSocket(`ws://127.0.0.1:${gateway.port}/chat`)
    onTestFinished(() => socket.terminate())
    await once(socket, 'open')
    socket.send('x'.repeat(1_000))
    await once(socket, 'message')
    expect(accessOf(gateway.output())).toEqual([])
    socket.close()
    await once(socket, 'close')
    await until('it is logged', () => accessOf(gateway.output()).length > 0)
    expect(await gateway.stop()).toBe(0)
    const lines = accessOf(gateway.output())
    expect(lines).toMatchObject([{ status: 101, path: '/chat', upstream: 'api' }])
    expect(lines[0]).not.toHaveProperty('aborted')
    // The message and the head of its frame, and the frame that closes; a client masks its own.
    expect(lines[0]?.bytes_in).toBeGreaterThanOrEqual(1_000)
    expect(lines[0]?.bytes_in).toBeLessThan(1_030)
    expect(lines[0]?.bytes_out).toBeGreaterThanOrEqual(1_000)
    expect(lines[0]?.bytes_out).toBeLessThan(1_030)
  })

  test('of several workers is opened again by all of them', async () => {
    const redis = await startRedis()
    onTestFinished(() => redis.stop())
    const store = { mode: 'standalone', addresses: [`${redis.host}:${redis.port}`] }
    const gateway = await start({ file: 'access.log' }, { store, args: ['--workers', '2'] })
    const file = join(gateway.folder, 'access.log')
    const ask = async () => {
      await (await fetch(gateway.url, { headers: { connection: 'close' } })).arrayBuffer()
    }
    for (let sent = 0; sent < 10; sent++) await ask()
    renameSync(file, `${file}.1`)
    const reopened = () => {
      return linesOf(gateway.output()).filter((line) => line.includes('"log.reopened"')).length
    }
    // One of the workers may still be at its start, and have opened the file that was renamed.
    gateway.child.kill('SIGUSR1')
    await until('both have opened it again', () => reopened() === 2)
    gateway.child.kill('SIGHUP')
    await until('a successor starts', () => gateway.output().includes('restarting 2 workers'))
    const isRestarted = () => gateway.output().includes('restarted 2 workers')
    // The two that listen, and the successor that does not yet, unless this process stood still.
    const expected = isRestarted() ? 4 : 5
    gateway.child.kill('SIGUSR1')
    await until('the successor has, too', () => reopened() === expected)
    await until('the restart is over', isRestarted)
    for (let sent = 0; sent < 10; sent++) await ask()
    expect(await gateway.stop()).toBe(0)
    const [old = '', recent = ''] = [`${file}.1`, file].map((one) => readFileSync(one, 'latin1'))
    expect(linesOf(old + recent)).toHaveLength(20)
    // Lines that still waited to be written are in the new file; none of the later ones is old.
    expect(linesOf(recent).length).toBeGreaterThanOrEqual(10)
  })

  test('in the combined format is read by tools for it, and is rotated without loss', async () => {
    const gateway = await start({ format: 'combined', file: 'access.log', addresses: 'raw' })
    const file = join(gateway.folder, 'access.log')
    for (const bytes of hostile) await sendRaw(gateway.port, bytes)
    renameSync(file, `${file}.1`)
    for (const bytes of hostile) await sendRaw(gateway.port, bytes)
    gateway.child.kill('SIGUSR1')
    await until('it is opened again', () => gateway.output().includes('"log.reopened"'))
    for (const bytes of hostile) await sendRaw(gateway.port, bytes)
    expect(await gateway.stop()).toBe(0)
    const [old = '', recent = ''] = [`${file}.1`, file].map((one) => readFileSync(one, 'latin1'))
    expect(linesOf(old + recent)).toHaveLength(3 * hostile.length)
    expect(linesOf(recent).length).toBeGreaterThanOrEqual(hostile.length)
    for (const line of linesOf(old + recent)) expect(line).toMatch(combined)
    expect(old + recent).not.toContain('5ecre7')
    expect(old).toMatch(/^127\.0\.0\.1 - - .* "GET \/ HTTP\/1\.1" 200 15 "-" "-"$/m)
    // Node would open its debugger at this signal.
    expect(gateway.errors()).not.toContain('Debugger')
  })

  test('on a full disk, and a pipe whose reader is gone, does not stop the gateway', async () => {
    const gateway = await start({ file: '/dev/full' })
    const ask = async () => (await fetch(`${gateway.url}/x`)).status
    expect(await ask()).toBe(200)
    await until('it is reported', () => gateway.output().includes('"reason":"ENOSPC"'))
    gateway.child.stdout.destroy()
    for (let count = 0; count < 20; count += 1) expect(await ask()).toBe(200)
    await sendRaw(gateway.port, 'hello\r\n\r\n')
    await until('both are counted', async () => {
      const page = await gateway.metrics()
      const counts = ['file', 'stdout'].map((sink) => {
        const name = `tidegate_log_lines_left_out_total{sink="${sink}",reason="failed"}`
        return Number(page.split(`${name} `)[1]?.split('\n')[0] ?? 0)
      })
      return counts.every((count) => count > 0)
    })
    expect(await gateway.stop()).toBe(0)
  })
})
