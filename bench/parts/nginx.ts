/** nginx as a reverse proxy with `limit_req` by API key: one worker, as the others have. */

import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from '../../test/servers/ports.ts'

export interface Nginx {
  readonly port: number
  stop(): void
}

/** Undefined where there is no nginx. */
export async function startNginx(backendPort: number): Promise<Nginx | undefined> {
  if (spawnSync('nginx', ['-v']).error !== undefined) return undefined
  const folder = mkdtempSync(join(tmpdir(), 'tidegate-nginx-'))
  const port = await freePort()
  writeFileSync(join(folder, 'nginx.conf'), configuration(folder, port, backendPort))
  const args = ['-c', join(folder, 'nginx.conf'), '-e', join(folder, 'error.log')]
  const child: ChildProcess = spawn('nginx', args, { stdio: 'inherit' })
  return {
    port,
    stop: () => {
      child.kill('SIGTERM')
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

function configuration(folder: string, port: number, backendPort: number): string {
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
  limit_req_status 429;
  upstream backend { server 127.0.0.1:${backendPort}; keepalive 128; }
  server {
    listen 127.0.0.1:${port};
    keepalive_requests 1000000;
    location / {
      limit_req zone=keys burst=1000000 nodelay;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_pass http://backend;
    }
  }
}
`
}
