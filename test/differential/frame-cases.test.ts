/** Frames with one correct outcome each: the response to the client, and the upstream request. */

import { expect, test } from 'vitest'
import { startTestGateway } from '../e2e/gateway/test-gateway.ts'
import { FrameClient, makeTls } from '../security/frame-client.ts'
import { startRecordingUpstream } from '../security/recording-upstream.ts'
import { until } from '../support/servers/until.ts'
import { frameCases } from './frame-cases.ts'

function outcomeOf(client: FrameClient): string {
  const { status, reset } = client.answer(1)
  if (client.goAway !== undefined && client.goAway !== 0) return `goaway ${client.goAway}`
  return reset === undefined || status > 0 ? String(status) : `reset ${reset}`
}

test('frames of RFC 9113 and 9218 and known attacks have the right outcome', async () => {
  const { tls } = makeTls()
  const found: object[] = []
  for (const { name, frames } of frameCases) {
    const upstream = await startRecordingUpstream()
    const upstreams = { api: { targets: [upstream.url], retries: 0 } }
    const { port, close } = await startTestGateway({ gateway: { tls }, upstreams })
    const client = await FrameClient.connect(port)
    // Bytes that arrive after the server has closed would reset the connection, and its GOAWAY.
    await until('the client has its settings', () => client.hasSettings)
    client.send(...frames)
    await until(`${name} is answered`, () => client.isOver(1))
    client.socket.destroy()
    const seen = upstream.requests.map(
      ({ method, target, body }) => `${method} ${target} ${body.length}`,
    )
    found.push({ name, outcome: outcomeOf(client), seen })
    await close()
  }
  expect(found).toEqual(frameCases.map(({ name, outcome, seen }) => ({ name, outcome, seen })))
})
