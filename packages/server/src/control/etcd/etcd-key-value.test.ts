import { randomBytes } from 'node:crypto'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { isEtcdMissing, startEtcd } from '../../../../../test/support/servers/etcd/etcd.ts'
import { until } from '../../../../../test/support/servers/until.ts'
import { useServer } from '../../../../../test/support/use-server.ts'
import type { Snapshot } from '../key-value.ts'
import { keyValueContract } from '../key-value-contract.ts'
import { EtcdKeyValue } from './etcd-key-value.ts'
import type { EtcdSettings } from './etcd-settings.ts'

// Needs etcd, which run.sh installs.
describe.skipIf(isEtcdMissing())('etcd', () => {
  const etcd = useServer(() => startEtcd())
  const settings = (): EtcdSettings => ({ endpoints: etcd.endpoints, prefix: newPrefix() })

  describe('as a store', () => {
    keyValueContract(async () => {
      const same = settings()
      return async () => new EtcdKeyValue(same)
    })
  })

  test('reports changes of other clients', async () => {
    const same = settings()
    const [one, other] = [open(same), open(same)]
    const seen = follow(one, 'live/')
    await until('the first report', () => seen.length === 1)
    await other.transact([], [{ key: 'live/a', value: '1' }])
    await until('the change', () => seen.length === 2)
    expect(seen.at(-1)?.entries).toMatchObject([{ key: 'live/a', value: '1' }])
    expect(one).toMatchObject({ scope: 'fleet', description: `etcd at 127.0.0.1:${port()}` })
  })

  test('shares one watch between followers of parts of live/', async () => {
    const same = settings()
    const [one, other] = [open(same), open(same)]
    const all = follow(one, 'live/')
    const blocks = follow(one, 'live/blocks/')
    await until('the first reports', () => all.length === 1 && blocks.length === 1)
    await other.transact([], [{ key: 'live/a', value: '1' }])
    await other.transact([], [{ key: 'live/blocks/b', value: '2' }])
    await until('the changes', () => all.length === 3 && blocks.length === 2)
    expect(blocks.at(-1)?.entries.map(({ key }) => key)).toEqual(['live/blocks/b'])
    const late = follow(one, 'live/')
    await until('a late follower', () => late.length === 1)
    expect(late[0]?.entries).toHaveLength(2)
  })

  test('names the prefix of no other store', async () => {
    const [one, other] = [open(settings()), open(settings())]
    await one.transact([], [{ key: 'live/a', value: '1' }])
    expect((await other.range('')).entries).toEqual([])
  })

  test('rejects when no member answers', async () => {
    const store = open({ endpoints: ['http://127.0.0.1:1'], prefix: '/t/' })
    await expect(store.range('')).rejects.toMatchObject({ code: 'unreachable' })
    const contacts: (string | undefined)[] = []
    store.follow('live/', {
      onChange: () => undefined,
      onContact: (_, problem) => void contacts.push(problem),
    })
    await until('the problem', () => contacts.length === 1)
    expect(contacts[0]).toContain('ECONNREFUSED')
  })

  test('a transaction without a response may be applied, unless it was not sent', async () => {
    const silent = await startMember((request) => void request.socket.destroy())
    const lost = open({ endpoints: [silent], prefix: '/t/' })
    await expect(lost.transact([], write)).rejects.toMatchObject({
      code: 'unreachable',
      mayBeApplied: true,
      message: expect.stringContaining('the change may have been made: look before you repeat it'),
    })
    const unsent = open({ endpoints: ['http://127.0.0.1:1'], prefix: '/t/' })
    await expect(unsent.transact([], write)).rejects.toMatchObject({
      code: 'unreachable',
      mayBeApplied: false,
      message: expect.not.stringContaining('may have been made'),
    })
  })

  test('a member without space changes nothing, and the message names the remedy', async () => {
    const error = 'etcdserver: mvcc: database space exceeded'
    const full = await startMember((_, response) => {
      response.writeHead(429).end(JSON.stringify({ error, code: 8, message: error }))
    })
    const store = open({ endpoints: [full], prefix: '/t/' })
    await expect(store.transact([], write)).rejects.toMatchObject({
      code: 'full',
      mayBeApplied: false,
      message: expect.stringMatching(
        /exceeded; nothing was changed; docs\/control-plane\.md shows/,
      ),
    })
  })

  const write = [{ key: 'live/a', value: '1' }]

  async function startMember(handle: RequestListener): Promise<string> {
    const member = createServer(handle)
    await new Promise<void>((resolve) => member.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void member.close())
    return `http://127.0.0.1:${(member.address() as AddressInfo).port}`
  }

  function open(one: EtcdSettings): EtcdKeyValue {
    const store = new EtcdKeyValue(one)
    onTestFinished(() => store.close())
    return store
  }

  const port = () => etcd.members[0]?.port
})

function newPrefix(): string {
  return `/tidegate/${randomBytes(6).toString('hex')}/`
}

function follow(store: EtcdKeyValue, prefix: string): Snapshot[] {
  const seen: Snapshot[] = []
  store.follow(prefix, {
    onChange: (snapshot) => void seen.push(snapshot),
    onContact: () => undefined,
  })
  return seen
}
