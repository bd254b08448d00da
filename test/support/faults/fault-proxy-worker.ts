/** The proxy as a process of its own, which is started by `startFaultProxyProcess`. */

import {
  type FaultProxy,
  type ProxyCall,
  type ProxyReply,
  type ProxyTarget,
  startFaultProxy,
} from './fault-proxy.ts'

interface ProxyPlan {
  readonly target: ProxyTarget
  readonly host: string
}

const { target, host }: ProxyPlan = JSON.parse(process.argv[2] ?? '')
const proxy = await startFaultProxy(target, host)

process.on('message', async (call: ProxyCall) => {
  await obey(proxy, call)
  process.send?.({ traffic: await proxy.traffic() } satisfies ProxyReply)
})
process.once('disconnect', () => process.exit())
process.send?.(proxy.port)

async function obey(proxy: FaultProxy, call: ProxyCall): Promise<void> {
  if (call.name === 'set') await proxy.set(call.faults)
  if (call.name === 'cut') await proxy.cut()
  if (call.name === 'freeze') await proxy.freeze()
}
