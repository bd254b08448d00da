/**
 * A first impression: an HTTP server that admits 10 requests in 10 seconds, and a client that sends
 * 12. Run it with `./run.sh demo`; it stops by itself.
 */

import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tokenBucket } from 'tidegate'
import { tidegate } from 'tidegate/node'

const LIMIT = 10
const REQUESTS = 12

const mayPass = tidegate({ limit: tokenBucket({ limit: LIMIT, per: '10s' }) })

const server = createServer(async (request, response) => {
  if (await mayPass(request, response)) response.end('hello\n')
})

server.listen(0, '127.0.0.1', async () => {
  const { port } = server.address() as AddressInfo
  const url = `http://127.0.0.1:${port}/`
  console.log(`A server at ${url} lets every client send ${LIMIT} requests in 10 seconds.`)
  console.log(`Here are ${REQUESTS}:\n`)
  const denied = await sendAll(url)
  if (denied !== undefined) await show(denied)
  console.log('\nREADME.md has the first steps in your own server; examples/demo.ts is this demo.')
  server.close()
})

/** Sends one after the other and returns the last answer that was a denial. */
async function sendAll(url: string): Promise<Response | undefined> {
  let denied: Response | undefined
  console.log('request  status  X-RateLimit-Remaining  Retry-After')
  for (let number = 1; number <= REQUESTS; number++) {
    const response = await fetch(url)
    const remaining = response.headers.get('x-ratelimit-remaining') ?? '-'
    const retryAfter = response.headers.get('retry-after')
    const wait = retryAfter === null ? '-' : `${retryAfter} s`
    console.log(
      `${String(number).padStart(7)}  ${String(response.status).padStart(6)}` +
        `  ${remaining.padStart(21)}  ${wait.padStart(11)}`,
    )
    if (response.status === 429) denied = response
    else await response.text()
  }
  return denied
}

async function show(response: Response): Promise<void> {
  console.log(`\nThe last answer in full:\n\nHTTP/1.1 ${response.status} ${response.statusText}`)
  for (const [name, value] of response.headers) console.log(`${name}: ${value}`)
  console.log(`\n${JSON.stringify(await response.json(), null, 2)}`)
}
