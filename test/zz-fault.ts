import net from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis, Cluster } from 'ioredis'
import { Redis as R5, Cluster as C5 } from 'ioredis5'
import * as n6 from 'redis'
import * as n5 from 'redis5'
import { startRedis } from './servers/redis.ts'
import { startCluster } from './servers/cluster.ts'
import { startSentinel } from './servers/sentinel.ts'
import { redisCaller } from '../packages/tidegate/src/stores/redis/client.ts'
import { newScript, newKey } from '../packages/tidegate/src/stores/redis/client-contract.ts'
process.on('unhandledRejection', (e: any) => console.log('   UNHANDLED', e.message))
process.on('uncaughtException', (e: any) => console.log('   UNCAUGHT', e.message))
// a proxy that swallows the reply to a request containing MARK and cuts the connection
let cuts = 0, cutsMax = 1
function proxy(target: number, listenPort = 0): Promise<any> {
  return new Promise(res => {
    const s: any = net.createServer(c => {
      const up = net.connect(target, '127.0.0.1'); let armed = false
      c.on('data', d => { if (d.includes('CUTME')) armed = true; up.write(d) })
      up.on('data', d => { if (armed && cuts < cutsMax) { cuts++; c.destroy(); up.destroy(); return } c.write(d) })
      const end = () => { c.destroy(); up.destroy() }
      for (const x of [c, up]) { x.on('error', end); x.on('close', end) }
      s.socks.add(c)
    })
    s.socks = new Set()
    s.listen(listenPort, '127.0.0.1', () => res(s))
  })
}
async function outcome(p: Promise<unknown>, ms = 8000) {
  const t = performance.now()
  const r = await Promise.race([p.then(v => 'resolved ' + JSON.stringify(v), e => 'rejected ' + e.constructor.name + ': ' + e.message), sleep(ms).then(() => 'PENDING after ' + ms + ' ms')])
  return `${r} (${Math.round(performance.now() - t)} ms)`
}
const noop = () => {}
type Maker = [string, (port: number) => Promise<{ client: any, close(): void }>]
const io = (K: any, o = {}) => async (port: number) => { const c = new K({ host: '127.0.0.1', port, lazyConnect: true, ...o }); c.on('error', noop); await c.connect(); return { client: c, close: () => c.disconnect() } }
const nr = (n: any, o = {}) => async (port: number) => { const c = n.createClient({ socket: { host: '127.0.0.1', port }, ...o }); c.on('error', noop); await c.connect(); return { client: c, close: () => c.destroy() } }
const makers: Maker[] = [
  ['ioredis5 default', io(R5)], ['ioredis6 default', io(Redis)],
  ['ioredis5 resend=false', io(R5, { autoResendUnfulfilledCommands: false })], ['ioredis6 resend=false', io(Redis, { autoResendUnfulfilledCommands: false })],
  ['ioredis5 retries=0', io(R5, { maxRetriesPerRequest: 0 })], ['ioredis6 retries=0', io(Redis, { maxRetriesPerRequest: 0 })],
  ['ioredis6 safe', io(Redis, { autoResendUnfulfilledCommands: false, maxRetriesPerRequest: 0, enableOfflineQueue: false })],
  ['ioredis5 safe', io(R5, { autoResendUnfulfilledCommands: false, maxRetriesPerRequest: 0, enableOfflineQueue: false })],
  ['node-redis5 default', nr(n5)], ['node-redis6 default', nr(n6)],
  ['node-redis5 noqueue', nr(n5, { disableOfflineQueue: true })], ['node-redis6 noqueue', nr(n6, { disableOfflineQueue: true })],
]
const server = await startRedis()
const only = process.argv[2]
if (!only || only === 'single') for (const [name, make] of makers) {
  const p = await proxy(server.port); const port = p.address().port
  const { client, close } = await make(port)
  const caller = redisCaller(client)
  const { text, sha1 } = newScript("return redis.call('INCR', KEYS[1])")
  await server.command('SCRIPT', 'LOAD', text)
  // 1: reply lost
  cuts = 0; let key = newKey()
  console.log(name, '\n  reply lost:', await outcome(caller.evalsha(sha1, [key], ['CUTME'])), 'executed', await server.command('GET', key))
  await sleep(300)
  // 2: pipeline reply lost
  cuts = 0; key = newKey()
  console.log('  reply lost, evalshaAndWait:', await outcome(caller.evalshaAndWait(sha1, [key], ['CUTME'], 0, 1)), 'executed', await server.command('GET', key))
  await sleep(300)
  // 3: down
  p.close(); for (const s of p.socks) s.destroy(); await sleep(50); key = newKey()
  const first = caller.evalsha(sha1, [key], [])
  console.log('  down:', await outcome(first, 12000))
  const again = caller.evalsha(sha1, [newKey()], [])
  const p2 = await proxy(server.port, port)
  console.log('  second call while down, back after 0-12 s:', await outcome(again, 12000))
  console.log('  first call after it is back:', await outcome(first, 100), 'executed', await server.command('GET', key))
  close(); p2.close(); for (const s of p2.socks) s.destroy()
}
if (!only || only === 'cluster') {
  const cluster = await startCluster()
  for (const [name, mk] of [
    ['ioredis5 cluster', (m: any) => new C5([...cluster.addresses], { natMap: m })], ['ioredis6 cluster', (m: any) => new Cluster([...cluster.addresses], { natMap: m })],
    ['ioredis6 cluster safe', (m: any) => new Cluster([...cluster.addresses], { natMap: m, retryDelayOnFailover: 0, retryDelayOnClusterDown: 0, redisOptions: { autoResendUnfulfilledCommands: false, maxRetriesPerRequest: 0 } })],
    ['ioredis5 cluster safe', (m: any) => new C5([...cluster.addresses], { natMap: m, retryDelayOnFailover: 0, retryDelayOnClusterDown: 0, redisOptions: { autoResendUnfulfilledCommands: false, maxRetriesPerRequest: 0 } })],
    ['node-redis5 cluster', (m: any) => n5.createCluster({ rootNodes: cluster.addresses.map(socket => ({ socket })), nodeAddressMap: m })],
    ['node-redis6 cluster', (m: any) => n6.createCluster({ rootNodes: cluster.addresses.map(socket => ({ socket })), nodeAddressMap: m })],
  ] as [string, any][]) {
    const ps: any[] = []; const map: any = {}
    for (const n of cluster.nodes) { const p = await proxy(n.port); ps.push(p); map[`127.0.0.1:${n.port}`] = { host: '127.0.0.1', port: p.address().port } }
    const c: any = mk(map); c.on('error', noop); if (c.status === undefined) await c.connect()
    const caller = redisCaller(c); const { text, sha1 } = newScript("return redis.call('INCR', KEYS[1])"); const key = newKey()
    const m = await cluster.masterOf(key); await m.command('SCRIPT', 'LOAD', text)
    await caller.eval('return 1', [key], [])
    cuts = 0
    console.log(name, '\n  reply lost:', await outcome(caller.evalsha(sha1, [key], ['CUTME'])), 'executed', await m.command('GET', key))
    const i = cluster.nodes.indexOf(m as any); ps[i].close(); for (const s of ps[i].socks) s.destroy(); await sleep(50)
    console.log('  node unreachable:', await outcome(caller.evalsha(sha1, [key], []), 15000))
    c.disconnect ? c.disconnect() : 0; c.destroy?.(); for (const p of ps) { p.close(); for (const s of p.socks) s.destroy() }
  }
  await cluster.stop()
}
if (!only || only === 'sentinel') {
  const g = await startSentinel({ replicas: 1, sentinels: 1 })
  for (const [name, mk] of [
    ['ioredis6 sentinel', (m: any) => new Redis({ sentinels: [...g.addresses], name: g.name, natMap: m })],
    ['node-redis5 sentinel', (m: any) => n5.createSentinel({ name: g.name, sentinelRootNodes: [...g.addresses], nodeAddressMap: m } as any)],
    ['node-redis6 sentinel', (m: any) => n6.createSentinel({ name: g.name, sentinelRootNodes: [...g.addresses], nodeAddressMap: m } as any)],
    ['node-redis6 sentinel rediscovers=0', (m: any) => n6.createSentinel({ name: g.name, sentinelRootNodes: [...g.addresses], nodeAddressMap: m, maxCommandRediscovers: 0 } as any)],
    ['node-redis5 sentinel rediscovers=0', (m: any) => n5.createSentinel({ name: g.name, sentinelRootNodes: [...g.addresses], nodeAddressMap: m, maxCommandRediscovers: 0 } as any)],
  ] as [string, any][]) {
    const map: any = {}; const ps: any[] = []
    for (const n of g.servers) { const p = await proxy(n.port); ps.push(p); map[`127.0.0.1:${n.port}`] = { host: '127.0.0.1', port: p.address().port } }
    const c: any = mk(map); c.on('error', noop); if (c.status === undefined) await c.connect()
    const caller = redisCaller(c); const { text, sha1 } = newScript("return redis.call('INCR', KEYS[1])"); const key = newKey()
    const m = await g.master(); await m.command('SCRIPT', 'LOAD', text)
    await caller.eval('return 1', [key], [])
    cuts = 0
    console.log(name, '\n  reply lost:', await outcome(caller.evalsha(sha1, [key], ['CUTME'])), 'executed', await m.command('GET', key))
    for (const p of ps) { p.close(); for (const s of p.socks) s.destroy() } await sleep(50)
    console.log('  master unreachable:', await outcome(caller.evalsha(sha1, [key], []), 12000))
    c.disconnect ? c.disconnect() : 0; await Promise.race([c.destroy?.(), sleep(500)])
  }
  await g.stop()
}
await server.stop()
process.exit()
