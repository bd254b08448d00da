/** Traffic of several clients, told apart by `X-Forwarded-For`: most are calm, and one floods. */

import { Agent, request } from 'node:http'

const CLIENTS = 30

/** Requests per second. */
const CALM = 3
const FLOOD = 120

const STEP_MS = 50

const paths = ['/api/resource', '/api/search', '/api/orders'] as const

/** Returns the function that ends it. */
export function startTraffic(port: number): () => void {
  const agent = new Agent({ keepAlive: true, maxSockets: 16 })
  const send = (client: number, path: string, method: string) => {
    const headers = { 'x-forwarded-for': `198.51.100.${client}` }
    const sent = request({ port, path, method, agent, headers }, (response) => response.resume())
    sent.on('error', () => undefined)
    sent.end()
  }
  const timer = setInterval(() => {
    for (let client = 1; client <= CLIENTS; client += 1) {
      const perSecond = client === 7 ? FLOOD : CALM
      const count = Math.floor((perSecond * STEP_MS) / 1_000 + Math.random())
      for (let at = 0; at < count; at += 1) {
        const path = paths[Math.floor(Math.random() * paths.length)] ?? '/'
        send(client, path, Math.random() < 0.1 ? 'POST' : 'GET')
      }
    }
  }, STEP_MS)
  return () => {
    clearInterval(timer)
    agent.destroy()
  }
}
