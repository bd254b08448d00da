import { randomBytes } from 'node:crypto'
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
