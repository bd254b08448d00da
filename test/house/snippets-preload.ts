/**
 * Loaded before snippets that start a server: replaces their port by a free one, and sends the
 * server a few requests for each of its routes. The responses go to the parent process, and the
 * snippet ends.
 */

import { readFileSync } from 'node:fs'
import { type AddressInfo, Server } from 'node:net'

export interface Answer {
  readonly request: string
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
}

export interface Probe {
  readonly answers: readonly Answer[]
  /** The routes that were found in the snippet's text. */
  readonly routes: readonly string[]
}

/** Enough to show a limit in more than one state. */
const REQUESTS_PER_ROUTE = 3

type Listen = (this: Server, ...args: unknown[]) => Server

const listen = Server.prototype.listen as Listen
let isProbed = false

const listenAtFreePort: Listen = function (...args) {
  const mapped = args.map(atFreePort)
  if (!isProbed && mapped.some((arg, at) => arg !== args[at])) {
    isProbed = true
    this.once('listening', () => void probe((this.address() as AddressInfo).port))
  }
  return listen.apply(this, mapped)
}

Server.prototype.listen = listenAtFreePort as typeof Server.prototype.listen

/** Replaces a fixed port; others, such as 0, stay. */
function atFreePort(arg: unknown): unknown {
  if (typeof arg === 'number' && arg > 0) return 0
  if (typeof arg !== 'object' || arg === null || !('port' in arg) || arg.port === 0) return arg
  return { ...arg, port: 0, host: '127.0.0.1' }
}

async function probe(port: number): Promise<void> {
  const routes = routesIn(readFileSync(process.argv[1] ?? '', 'utf8'))
  const answers: Answer[] = []
  for (const route of routes.length > 0 ? routes : ['GET /']) {
    for (let count = 0; count < REQUESTS_PER_ROUTE; count++) answers.push(await send(port, route))
  }
  process.send?.({ answers, routes } satisfies Probe, () => process.exit())
}

/** The paths of routes such as `app.get('/items/:id', …)`. */
function routesIn(code: string): string[] {
  const declared = code.matchAll(/\.(get|post|put|delete)\(\s*['"](\/[^'"]*)['"]/g)
  const routes = Array.from(declared, ([, method = '', path = '']) => {
    return `${method.toUpperCase()} ${path.replaceAll(/:\w+/g, '1')}`
  })
  return [...new Set(routes)]
}

async function send(port: number, request: string): Promise<Answer> {
  const [method = 'GET', path = '/'] = request.split(' ')
  const body = JSON.stringify({ email: 'ada@example.com', password: 'wrong', prompt: 'Hello' })
  const response = await fetch(`http://127.0.0.1:${port}${path}`, {
    method,
    headers: { 'content-type': 'application/json', 'x-api-key': 'key-of-ada' },
    ...(method === 'GET' ? undefined : { body }),
  })
  await response.text()
  return { request, status: response.status, headers: Object.fromEntries(response.headers) }
}
