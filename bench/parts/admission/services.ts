/**
 * The bursts of processes.ts through rate limit services of Envoy's protocol, four processes of
 * each.
 */

import { type RequestMessage, rlsClient } from '../../../test/e2e/rls/rls-client.ts'
import type { RedisServer } from '../../../test/support/servers/redis.ts'
import { makeFolder, removeFolder } from '../../../test/support/servers/server-process.ts'
import { ratelimit } from '../../../tools/install/programs.ts'
import type { Run } from '../../harness/part.ts'
import { peerProgram } from '../../peers/peer-program.ts'
import { startRatelimit } from '../../peers/ratelimit.ts'
import { startOurs, writeConfig } from '../rls/processes.ts'
import type { RlsService } from '../rls/service.ts'
import { LIMIT, PROCESSES, REQUESTS } from './processes.ts'

export interface BurstService {
  readonly name: string
  /** How many of a burst were admitted. */
  burst(key: string): Promise<number>
}

export async function startBurstServices(run: Run, redis: RedisServer): Promise<BurstService[]> {
  const folder = makeFolder()
  run.onStop(() => removeFolder(folder))
  const directory = writeConfig(folder)
  const address = `${redis.host}:${redis.port}`
  const four = (start: () => Promise<RlsService>) =>
    Promise.all(Array.from({ length: PROCESSES }, start))
  const ours = 'Tidegate, rls'
  const own = await four(() => startOurs(run, ours, directory, address, 'own'))
  const services = [serviceOf(run, ours, own)]
  const program = await peerProgram(run, ratelimit)
  if (program !== undefined) {
    const theirs = await four(() => startRatelimit(run, program, folder, address))
    services.push(serviceOf(run, ratelimit.name, theirs))
  }
  return services
}

function serviceOf(run: Run, name: string, processes: readonly RlsService[]): BurstService {
  const clients = processes.map(({ port }) => rlsClient(port))
  run.onStop(() => clients.map((client) => client.close()))
  return {
    name,
    async burst(key) {
      const answers = Array.from({ length: REQUESTS }, (_, at) =>
        clients[at % clients.length]?.ask(requestOf(key)),
      )
      const all = await Promise.all(answers)
      return all.filter((answer) => answer?.overall_code === 'OK').length
    },
  }
}

/** A request with its own limit, which both services support. */
function requestOf(key: string): RequestMessage {
  const limit = { requests_per_unit: LIMIT, unit: 'DAY' }
  return { domain: 'bench', descriptors: [{ entries: [{ key: 'burst', value: key }], limit }] }
}
