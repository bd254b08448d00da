/** A listener closes connections whose client is gone, which it would otherwise keep for ever. */

import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect } from 'node:http2'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { startLinkServer } from '../../../packages/server/src/regions/link/link-server.ts'
import { createTopology } from '../../../packages/server/src/regions/topology.ts'
import { makeRegionCertificates } from '../../support/regions/region-certificates.ts'
import { LOOPBACK } from '../../support/servers/ports.ts'
import { makeFolder, removeFolder } from '../../support/servers/server-process.ts'

const folder = makeFolder()

afterAll(() => removeFolder(folder))

test('a connection without pings is closed after half a minute', async () => {
  const { cert = '', key = '', ca = '' } = makeRegionCertificates(folder, ['eu']).get('eu') ?? {}
  const tls = { cert: readFileSync(cert), key: readFileSync(key), ca: readFileSync(ca) }
  const list = { eu: { endpoint: 'eu:1' }, us: { endpoint: 'us:1' } }
  const server = await startLinkServer({
    ...{ topology: createTopology('eu', { list } as never), host: LOOPBACK, port: 0, tls },
    ...{ token: undefined, handlers: new Map(), isForgotten: () => false },
    ...{ onMessage: () => undefined, onRefused: () => undefined },
  })
  onTestFinished(() => server.close())
  const session = connect(`https://${LOOPBACK}:${server.port}`, {
    ...tls,
    checkServerIdentity: () => undefined,
  })
  session.on('error', () => undefined)
  await once(session, 'connect')
  const startMs = performance.now()
  await once(session, 'close')
  expect(performance.now() - startMs).toBeGreaterThan(25_000)
})
