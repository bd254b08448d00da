/** nginx as a reverse proxy with `limit_req` by API key, with one worker like the others. */

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { freePort } from '../../../test/support/servers/ports.ts'
import type { CoreOfItsOwn } from '../../harness/cores.ts'
import { type PeerProxy, startProxy } from './proxy.ts'

/** `port` admits everything, `refusingPort` one request per key and minute. */
export async function startNginx(backendPort: number, core: CoreOfItsOwn): Promise<PeerProxy> {
  const [port, refusingPort] = await Promise.all([freePort(), freePort()])
  const ports = { port, refusingPort }
  return startProxy('nginx', ports, core, (folder) => {
    const file = join(folder, 'nginx.conf')
    writeFileSync(file, configuration(folder, ports, backendPort))
    return ['-c', file, '-e', join(folder, 'error.log')]
  })
}

/** Turns the log of refusals off, because no other contender logs a line for each. */
function configuration(
  folder: string,
  { port, refusingPort }: Pick<PeerProxy, 'port' | 'refusingPort'>,
  backendPort: number,
): string {
  return `
daemon off;
master_process off;
pid ${folder}/nginx.pid;
events { worker_connections 1024; }
http {
  access_log off;
  client_body_temp_path ${folder}/body;
  proxy_temp_path ${folder}/proxy;
  fastcgi_temp_path ${folder}/fastcgi;
  uwsgi_temp_path ${folder}/uwsgi;
  scgi_temp_path ${folder}/scgi;
  limit_req_zone $http_x_api_key zone=keys:10m rate=1000000r/s;
  limit_req_zone $http_x_api_key zone=used-up:10m rate=1r/m;
  limit_req_status 429;
  limit_req_log_level info;
  proxy_http_version 1.1;
  proxy_set_header Connection "";
  keepalive_requests 1000000;
  upstream backend { server 127.0.0.1:${backendPort}; keepalive 128; }
  server {
    listen 127.0.0.1:${port};
    location / {
      limit_req zone=keys burst=1000000 nodelay;
      proxy_pass http://backend;
    }
  }
  server {
    listen 127.0.0.1:${refusingPort};
    location / {
      limit_req zone=used-up;
      proxy_pass http://backend;
    }
  }
}
`
}
