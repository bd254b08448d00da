/** A small listener for those who run the service: `/status`, `/health` and `/ready`. */

import type { ServerResponse } from 'node:http'
import { type HttpDoor, openDoor, send } from './http-door.ts'

export interface AdminOptions {
  readonly host: string
  readonly port: number
  status(): object
  isReady(): boolean
}

export function startAdmin(options: AdminOptions): Promise<HttpDoor> {
  return openDoor((request, response) => {
    if (request.method !== 'GET') return sendJson(response, 405, { status: 'use GET' })
    if (request.url === '/health') return sendJson(response, 200, { status: 'ok' })
    if (request.url === '/status') return sendJson(response, 200, options.status())
    if (request.url !== '/ready') return sendJson(response, 404, { status: 'not found' })
    const isReady = options.isReady()
    sendJson(response, isReady ? 200 : 503, { status: isReady ? 'ready' : 'not ready' })
  }, options)
}

function sendJson(response: ServerResponse, status: number, body: object): void {
  send(response, status, 'application/json', `${JSON.stringify(body, null, 2)}\n`)
}
