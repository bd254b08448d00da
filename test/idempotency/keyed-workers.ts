/** Starts several processes with the same idempotency keys, and sends them requests. */

import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { Agent, request } from 'node:http'
import { join } from 'node:path'

export interface KeyedWorker {
  readonly child: ChildProcess
  readonly port: number
}

export interface Answer {
  readonly status: number
  /** The body in base64. */
  readonly body: string
}

const program = join(import.meta.dirname, 'keyed-worker.ts')

export async function startKeyedWorkers(
  count: number,
  settings: { readonly url: string; readonly lease: string },
): Promise<readonly KeyedWorker[]> {
  return Promise.all(
    Array.from({ length: count }, async () => {
      const child = fork(program, [JSON.stringify(settings)], { execArgv: [] })
      const [port] = await once(child, 'message')
      return { child, port }
    }),
  )
}

export async function stopKeyedWorkers(workers: readonly KeyedWorker[]): Promise<void> {
  for (const { child } of workers) {
    if (child.exitCode !== null || child.signalCode !== null) continue
    const ended = once(child, 'exit')
    child.kill('SIGKILL')
    await ended
  }
}

const agent = new Agent({ keepAlive: true, maxSockets: 256 })

/** Resolves to undefined if the client disconnects after `abortMs`, or if the server is gone. */
export function send(
  { port }: KeyedWorker,
  key: string,
  { path = '/', abortMs }: { readonly path?: string; readonly abortMs?: number | undefined } = {},
): Promise<Answer | undefined> {
  return new Promise((resolve) => {
    const headers = { 'idempotency-key': key }
    const sent = request({ port, host: '127.0.0.1', method: 'POST', path, headers, agent })
    sent.on('error', () => resolve(undefined))
    sent.on('response', (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk) => chunks.push(chunk))
      response.on('error', () => resolve(undefined))
      response.on('end', () => {
        const body = Buffer.concat(chunks).toString('base64')
        resolve({ status: response.statusCode ?? 0, body })
      })
    })
    sent.end('the same body')
    if (abortMs !== undefined) setTimeout(() => sent.destroy(), abortMs)
  })
}
