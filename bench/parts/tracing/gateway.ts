/** Three gateways with the same limit, which differ in their traces. */

import { existsSync } from 'node:fs'
import type { RedisServer } from '../../../test/support/servers/redis.ts'
import { makeFolder, removeFolder } from '../../../test/support/servers/server-process.ts'
import type { Run } from '../../harness/part.ts'
import { cpuUs, startBackend, startGateway } from '../cost/gateway.ts'
import { httpLoad } from '../load/http-load.ts'
import { OFF, SAMPLED, SHARE, startSink, type TracedSubject, UNSAMPLED } from './subject.ts'

const SECONDS = 3

/** Returns undefined, and reports it, on other systems than Linux. */
export async function gatewayContenders(
  run: Run,
  redis: RedisServer,
): Promise<readonly TracedSubject[] | undefined> {
  if (!existsSync('/proc/self/stat')) {
    run.skipped('the gateway: needs the /proc of Linux')
    return undefined
  }
  const { load } = httpLoad(run)
  const folder = makeFolder()
  run.onStop(() => removeFolder(folder))
  const sink = await startSink()
  run.onStop(() => sink.stop())
  const backend = await startBackend(run)
  const endpoint = `OTEL_EXPORTER_OTLP_ENDPOINT=${sink.url}`
  const variables = {
    [OFF]: [],
    [UNSAMPLED]: [endpoint, 'OTEL_TRACES_SAMPLER=always_off'],
    [SAMPLED]: [endpoint, `OTEL_TRACES_SAMPLER_ARG=${SHARE}`],
  }
  const subjects: TracedSubject[] = []
  for (const [name, own] of Object.entries(variables)) {
    const { pid, port } = await startGateway(run, folder, redis, backend, own)
    subjects.push({
      name,
      async run() {
        const beforeUs = cpuUs(pid)
        const { perSecond } = await load(port, SECONDS)
        return { perSecond, cpuUs: (cpuUs(pid) - beforeUs) / (perSecond * SECONDS) }
      },
    })
  }
  return subjects
}
