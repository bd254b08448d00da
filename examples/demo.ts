/**
 * A first impression: the gateway in front of a backend, and a client that sends 12 requests while
 * the limit allows 10 at once. Run it with `./run.sh demo`; it stops by itself.
 */

import {
  freePortNear,
  portOf,
  type Running,
  refuseTaken,
  startBackend,
  startGateway,
} from './processes.ts'

const REQUESTS = 12

const running: Running[] = []

try {
  const backendPort = await portFor('BACKEND_PORT', 8081)
  const port = await portFor('PORT', 8080)
  const url = `http://127.0.0.1:${port}/api/resource`
  running.push(await startBackend(backendPort, 'inherit'))
  const backend = { BACKEND_URL: `http://127.0.0.1:${backendPort}` }
  running.push(await startGateway(backend, port, 'ignore'))
  const burst = process.env.BUCKET_SIZE || '10'
  console.log(`\n${REQUESTS} requests to ${url}, where a client may send ${burst} at once:\n`)
  const denied = await sendAll(url)
  if (denied !== undefined) await show(denied)
  console.log(
    '\nNext: ./run.sh starts both and leaves them running; docs/gateway.md explains more.',
  )
} catch (error) {
  console.error(`run.sh: ${(error as Error).message}`)
  process.exitCode = 1
} finally {
  for (const { end } of running.reverse()) await end()
}

/** The port in the variable, or an error if it is in use. Without the variable, a free port. */
async function portFor(name: string, otherwise: number): Promise<number> {
  const port = portOf(name)
  if (port === undefined) return freePortNear(otherwise)
  await refuseTaken(name, port)
  return port
}

/** Sends requests one after the other and returns the last denial. */
async function sendAll(url: string): Promise<Response | undefined> {
  let denied: Response | undefined
  for (let number = 1; number <= REQUESTS; number++) {
    const response = await fetch(url)
    console.log(
      `Request ${number}: ${response.status} ${response.statusText} (${summaryOf(response)})`,
    )
    if (response.status === 429) denied = response
    else await response.text()
  }
  return denied
}

function summaryOf({ status, headers }: Response): string {
  if (status === 429) return `retry after: ${headers.get('retry-after')}s`
  if (headers.get('x-ratelimit-status') === 'degraded') return 'not counted: Redis does not answer'
  const remaining = headers.get('x-ratelimit-remaining')
  return remaining === null ? 'not limited' : `remaining: ${remaining}`
}

async function show(response: Response): Promise<void> {
  console.log(`\nThe last response in full:\n\nHTTP/1.1 ${response.status} ${response.statusText}`)
  for (const [name, value] of response.headers) console.log(`${name}: ${value}`)
  console.log(`\n${JSON.stringify(await response.json(), null, 2)}`)
}
