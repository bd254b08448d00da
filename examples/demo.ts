/**
 * A first impression: the gateway in front of a backend, and a client that sends 12 requests where
 * 10 are allowed at once. Run it with `./run.sh demo`; it stops by itself.
 */

import { freePortNear, type Running, startBackend, startGateway } from './processes.ts'

const REQUESTS = 12

const backendPort = await freePortNear(8081)
const port = await freePortNear(8080)
const url = `http://127.0.0.1:${port}/api/resource`
const running: Running[] = []

try {
  running.push(await startBackend(backendPort, 'inherit'))
  const backend = { BACKEND_URL: `http://127.0.0.1:${backendPort}` }
  running.push(await startGateway(backend, port, 'ignore'))
  console.log(`\n${REQUESTS} requests to ${url}, where a client may send 10 at once:\n`)
  const denied = await sendAll()
  if (denied !== undefined) await show(denied)
  console.log('\nNext: ./run.sh starts both and leaves them running; docs/gateway.md has the rest.')
} finally {
  for (const { end } of running.reverse()) await end()
}

/** Sends one after the other and returns the last answer that was a denial. */
async function sendAll(): Promise<Response | undefined> {
  let denied: Response | undefined
  for (let number = 1; number <= REQUESTS; number++) {
    const response = await fetch(url)
    const { status, statusText, headers } = response
    const remaining = `remaining: ${headers.get('x-ratelimit-remaining')}`
    const wait = `retry after: ${headers.get('retry-after')}s`
    const detail = status === 429 ? wait : remaining
    console.log(`Request ${number}: ${status} ${statusText} (${detail})`)
    if (status === 429) denied = response
    else await response.text()
  }
  return denied
}

async function show(response: Response): Promise<void> {
  console.log(`\nThe last answer in full:\n\nHTTP/1.1 ${response.status} ${response.statusText}`)
  for (const [name, value] of response.headers) console.log(`${name}: ${value}`)
  console.log(`\n${JSON.stringify(await response.json(), null, 2)}`)
}
