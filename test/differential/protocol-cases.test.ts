/** Cases with one correct outcome each: the statuses for the client, and the upstream requests. */

import { expect, test } from 'vitest'
import { openRaw } from '../e2e/gateway/raw-client.ts'
import { startTestGateway } from '../e2e/gateway/test-gateway.ts'
import { otherOutcome } from '../e2e/gateway/transport-differences.ts'
import { startRecordingUpstream } from '../security/recording-upstream.ts'
import { until } from '../support/servers/until.ts'
import { protocolCases } from './protocol-cases.ts'

/** They end connections that have nothing more to say, and must not end others that stall. */
const timeouts = { headers: '8s', request: '8s', keepAlive: '8s' }

test('requests of RFC 9110 and 9112 and known attacks have the right outcome', async () => {
  const found = await Promise.all(
    protocolCases.map(async ({ name, bytes }) => {
      const upstream = await startRecordingUpstream()
      const upstreams = { api: { targets: [upstream.url], retries: 0 } }
      const { port } = await startTestGateway({ gateway: { timeouts }, upstreams })
      const { socket, received } = openRaw(port)
      socket.write(bytes, 'latin1')
      await until('the connection ends', () => socket.closed)
      const heads = received().matchAll(/HTTP\/1\.1 ([2-5]\d\d) /g)
      const statuses = Array.from(heads, ([, status]) => Number(status))
      const seen = upstream.requests.map(
        ({ method, target, body }) => `${method} ${target} ${body.length}`,
      )
      return { name, statuses, seen }
    }),
  )
  const expected = protocolCases.map(({ name, statuses, seen }) => {
    return { name, ...(otherOutcome(name) ?? { statuses, seen }) }
  })
  expect(found).toEqual(expected)
})
