import { describe, expect, it } from 'vitest'
import { type IoredisCluster, IoredisMasters } from './ioredis-masters.ts'

/** A cluster of one master; `refusal` is how the master answers every call, if it does. */
function clusterOf(refusal?: string, given: Partial<IoredisCluster> = {}) {
  const calls: string[] = []
  const refused = () => Promise.reject(new Error(refusal))
  const answer =
    (sender: string) =>
    async (_sha1: string, count: number, ...rest: string[]) => {
      calls.push(`${sender} ${count} ${rest.join(' ')}`)
      return sender === 'master' && refusal !== undefined ? refused() : sender
    }
  const events: string[] = []
  const stream = { cork: () => events.push('cork'), uncork: () => events.push('uncork') }
  const master = { options: { host: '10.0.0.1', port: 7000 }, stream, evalsha: answer('master') }
  const cluster: IoredisCluster = {
    status: 'ready',
    options: {},
    slots: Array.from({ length: 16_384 }, () => ['10.0.0.1:7000', '10.0.0.2:7000']),
    nodes: () => [master],
    evalsha: answer('cluster'),
    ...given,
  }
  return { masters: new IoredisMasters(cluster), calls, events }
}

describe('calls to the masters of an ioredis cluster', () => {
  it('are sent by the client of the master', async () => {
    const { masters, calls } = clusterOf()
    expect(await masters.evalsha('sha', ['a', 'b'], ['1'])).toBe('master')
    expect(calls).toEqual(['master 2 a b 1'])
  })

  it('are sent in one write, at the end of the tick', async () => {
    const { masters, events } = clusterOf()
    const sent = [masters.evalsha('sha', ['a'], []), masters.evalsha('sha', ['b'], [])]
    expect(events).toEqual(['cork'])
    await Promise.all(sent)
    await new Promise(setImmediate)
    expect(events).toEqual(['cork', 'uncork'])
  })

  it.each([
    'MOVED 3999 127.0.0.1:6381',
    'ASK 3999 127.0.0.1:6381',
    'TRYAGAIN Multiple keys request during rehashing of slot',
    'CLUSTERDOWN The cluster is down',
    'Connection is closed.',
  ])('are sent again by the cluster after "%s", which it handles', async (refusal) => {
    const { masters, calls } = clusterOf(refusal)
    expect(await masters.evalsha('sha', ['a'], ['1'])).toBe('cluster')
    expect(calls).toEqual(['master 1 a 1', 'cluster 1 a 1'])
  })

  it.each(['read ECONNRESET', 'NOSCRIPT No matching script.'])(
    'are not sent again after "%s"',
    async (refusal) => {
      const { masters, calls } = clusterOf(refusal)
      await expect(masters.evalsha('sha', ['a'], [])).rejects.toThrow(refusal)
      expect(calls).toEqual(['master 1 a'])
    },
  )

  it.each([
    ['is not connected', { status: 'connecting' }],
    ['knows no master of the slot', { slots: [] }],
    ['has no client of that master', { nodes: () => [] }],
    ['changes the keys', { options: { keyPrefix: 'app:' } }],
  ])('are left to a cluster that %s', async (_what, given) => {
    const { masters, calls } = clusterOf(undefined, given)
    expect(await masters.evalsha('sha', ['a'], [])).toBe('cluster')
    expect(calls).toEqual(['cluster 1 a'])
  })
})
