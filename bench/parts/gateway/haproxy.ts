/** HAProxy as a reverse proxy with a stick table by API key, with one thread like the others. */

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { freePort } from '../../../test/support/servers/ports.ts'
import type { CoreOfItsOwn } from '../../harness/cores.ts'
import { type PeerProxy, startProxy } from './proxy.ts'

/** `port` admits everything, `refusingPort` one request per key and hour. */
export async function startHaproxy(backendPort: number, core: CoreOfItsOwn): Promise<PeerProxy> {
  const [port, refusingPort] = await Promise.all([freePort(), freePort()])
  const ports = { port, refusingPort }
  return startProxy('haproxy', ports, core, (folder) => {
    const file = join(folder, 'haproxy.cfg')
    writeFileSync(file, configuration(ports, backendPort))
    return ['-db', '-f', file]
  })
}

function configuration(
  { port, refusingPort }: Pick<PeerProxy, 'port' | 'refusingPort'>,
  backendPort: number,
): string {
  return `
global
  nbthread 1
  maxconn 1024
defaults
  mode http
  timeout connect 1s
  timeout client 30s
  timeout server 30s
  http-reuse always
frontend limited
  bind 127.0.0.1:${port}
  stick-table type string len 64 size 100k expire 10s store http_req_rate(1s)
  http-request track-sc0 req.hdr(x-api-key)
  http-request deny deny_status 429 if { sc_http_req_rate(0) gt 1000000 }
  default_backend backend
frontend refusing
  bind 127.0.0.1:${refusingPort}
  stick-table type string len 64 size 100k expire 1h store http_req_rate(1h)
  http-request track-sc0 req.hdr(x-api-key)
  http-request deny deny_status 429 if { sc_http_req_rate(0) gt 1 }
  default_backend backend
backend backend
  server one 127.0.0.1:${backendPort} pool-max-conn 128
`
}
