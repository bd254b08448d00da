import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import { makeCertificate } from '../../../../../test/support/servers/certificates.ts'
import { isEtcdMissing, startEtcd } from '../../../../../test/support/servers/etcd/etcd.ts'
import { makeFolder, removeFolder } from '../../../../../test/support/servers/server-process.ts'
import { until } from '../../../../../test/support/servers/until.ts'
import { useServer } from '../../../../../test/support/use-server.ts'
import { EtcdKeyValue } from './etcd-key-value.ts'
import type { EtcdSettings } from './etcd-settings.ts'

const password = 'correct horse'
const prefix = '/tidegate/access/'

// Needs etcd, which run.sh installs.
describe.skipIf(isEtcdMissing())('etcd with TLS and users', () => {
  const etcd = useServer(() =>
    startEtcd({ tls: true, rootPassword: password, args: ['--auth-token-ttl', '1'] }),
  )
  const secured = (more: Partial<EtcdSettings> = {}): EtcdSettings => ({
    endpoints: etcd.endpoints,
    prefix,
    tls: { ca: etcd.tls?.ca },
    user: 'root',
    password,
    ...more,
  })

  test('authenticates, and again when the token has expired', async () => {
    const store = open(secured())
    await store.transact([], [{ key: 'a', value: '1' }])
    // The token expires one second after its last use. Nothing else shows that it has.
    await sleep(2_500)
    expect((await store.range('a')).entries).toMatchObject([{ value: '1' }])
  })

  test('goes on after a change of users, which ends every token', async () => {
    const store = open(secured())
    const seen: number[] = []
    store.follow('live/', {
      onChange: ({ entries }) => void seen.push(entries.length),
      onContact: () => undefined,
    })
    await until('the first report', () => seen.length === 1)
    await etcd.ctl('user', 'add', 'other:secret')
    await store.transact([], [{ key: 'live/a', value: '1' }])
    await until('the change', () => seen.at(-1) === 1)
  })

  test('is limited to the prefix that the role of the user allows', async () => {
    await etcd.ctl('role', 'add', 'node')
    await etcd.ctl('role', 'grant-permission', 'node', '--prefix=true', 'readwrite', prefix)
    await etcd.ctl('user', 'add', 'node:secret')
    await etcd.ctl('user', 'grant-role', 'node', 'node')
    const store = open(secured({ user: 'node', password: 'secret' }))
    expect(await store.transact([], [{ key: 'b', value: '1' }])).toMatchObject({ ok: true })
    const elsewhere = open(secured({ user: 'node', password: 'secret', prefix: '/other/' }))
    await expect(elsewhere.range('')).rejects.toMatchObject({ code: 'denied' })
  })

  test('refuses a wrong password, a missing user and an unknown authority', async () => {
    const wrong = open(secured({ password: 'wrong' }))
    await expect(wrong.range('')).rejects.toMatchObject({ code: 'denied' })
    const missing = open({ ...secured(), user: undefined })
    await expect(missing.range('')).rejects.toMatchObject({ code: 'denied' })
    const untrusted = open(secured({ tls: {} }))
    await expect(untrusted.range('')).rejects.toMatchObject({ code: 'unreachable' })
  })

  test('reports that certificates with a Common Name cannot be used with users', async () => {
    const folder = makeFolder()
    onTestFinished(() => removeFolder(folder))
    const client = makeCertificate(folder)
    const strict = await startEtcd({
      tls: true,
      rootPassword: password,
      clientCertificate: client,
    })
    onTestFinished(() => strict.stop())
    const key = readFileSync(client.keyFile)
    const tls = { ca: strict.tls?.ca, cert: client.ca, key }
    const store = open(secured({ endpoints: strict.endpoints, tls }))
    await expect(store.range('')).rejects.toMatchObject({
      code: 'denied',
      message: expect.stringContaining('without a Common Name'),
    })
  })
})

// Needs etcd, which run.sh installs.
test.skipIf(isEtcdMissing())('names the setting of a member without the gateway', async () => {
  const etcd = await startEtcd({ args: ['--enable-grpc-gateway=false'] })
  onTestFinished(() => etcd.stop())
  const store = open({ endpoints: etcd.endpoints, prefix })
  await expect(store.range('')).rejects.toMatchObject({
    message: expect.stringContaining('enable-grpc-gateway'),
  })
})

function open(settings: EtcdSettings): EtcdKeyValue {
  const store = new EtcdKeyValue(settings)
  onTestFinished(() => store.close())
  return store
}
