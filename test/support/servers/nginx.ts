/** A real nginx in front of upstreams of a test, in a folder of its own. */

import { writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { findProgram } from './find-program.ts'
import { freePort, LOOPBACK } from './ports.ts'
import { makeFolder, removeFolder, ServerProcess } from './server-process.ts'
import { until } from './until.ts'

/** An nginx elsewhere, such as one just compiled. */
const VARIABLE = 'TIDEGATE_NGINX'

/** Debian's nginx is not on the PATH of every user. */
const usualFolders = ['/usr/sbin', '/usr/local/sbin']

export interface NginxOptions {
  /** Upstreams; each gets one listener. */
  readonly upstreams: readonly string[]
  /** If set, listeners speak HTTP/2 over TLS. */
  readonly tls?: { readonly cert: string; readonly key: string }
  /** Registers the function that stops it. */
  atEnd(stop: () => Promise<void>): void
}

/** The path of nginx; undefined if it is not installed. */
export function nginxBinary(): string | undefined {
  return findProgram([process.env[VARIABLE] ?? 'nginx'], usualFolders)
}

/** Returns the ports of the listeners, in the order of the upstreams. */
export async function startNginx({ upstreams, tls, atEnd }: NginxOptions): Promise<number[]> {
  const binary = nginxBinary()
  if (binary === undefined) throw new Error('nginx was not found: apt-get install nginx-light')
  const folder = makeFolder()
  const ports: number[] = []
  for (const _ of upstreams) ports.push(await freePort())
  const file = join(folder, 'nginx.conf')
  writeFileSync(file, configOf(upstreams, ports, folder, tls))
  const server = new ServerProcess(binary, ['-p', folder, '-c', file, '-e', 'stderr'], folder)
  atEnd(async () => {
    await server.end()
    removeFolder(folder)
  })
  await until('nginx listens', async () => {
    if (server.hasEnded) throw new Error(server.output)
    return (await Promise.all(ports.map(listens))).every(Boolean)
  })
  return ports
}

/**
 * Forwards requests unchanged: whole bodies, the path as sent, and fields that nginx drops by
 * default. Its timeouts are longer than any client here takes.
 */
function configOf(
  upstreams: readonly string[],
  ports: readonly number[],
  folder: string,
  tls: NginxOptions['tls'],
): string {
  const secure = tls && `ssl_certificate ${tls.cert}; ssl_certificate_key ${tls.key};`
  const servers = upstreams.map((upstream, at) => {
    const listen = `listen ${LOOPBACK}:${ports[at]}${tls === undefined ? '' : ' ssl http2'};`
    return `server { ${listen} ${secure ?? ''} location / { proxy_pass ${upstream}; } }`
  })
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (name) => `${name}_temp_path ${folder}/${name};`,
  )
  return `daemon off; master_process off; pid ${folder}/nginx.pid; error_log stderr crit;
events { worker_connections 1024; }
http {
  access_log off; ${temporary.join(' ')}
  underscores_in_headers on; ignore_invalid_headers off; merge_slashes off;
  proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $host;
  keepalive_requests 1000000; client_max_body_size 10m; lingering_close off;
  ${servers.join('\n  ')}
}
`
}

function listens(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, LOOPBACK)
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
}
