/** envoyproxy/ratelimit, the reference, with the same configuration and the same Redis as ours. */

import { freePort } from '../../test/support/servers/ports.ts'
import { ratelimit } from '../../tools/install/programs.ts'
import type { Run } from '../harness/part.ts'
import { envoyCalls, type RlsService, untilCountingByEnvoy } from '../parts/rls/service.ts'
import { startPeer } from './start-peer.ts'

/** It reads the files in `config` below the folder. */
export async function startRatelimit(
  run: Pick<Run, 'onStop'>,
  program: string,
  folder: string,
  redis: string,
): Promise<RlsService> {
  const [port, http, debug] = await Promise.all([freePort(), freePort(), freePort()])
  const service = { ...envoyCalls, name: ratelimit.name, isOurs: false, port }
  const settings = {
    GRPC_PORT: String(port),
    PORT: String(http),
    DEBUG_PORT: String(debug),
    USE_STATSD: 'false',
    LOG_LEVEL: 'error',
    REDIS_SOCKET_TYPE: 'tcp',
    REDIS_URL: redis,
    RUNTIME_ROOT: folder,
    RUNTIME_SUBDIRECTORY: '',
    RUNTIME_WATCH_ROOT: 'false',
  }
  const untilCounting = () => untilCountingByEnvoy(service)
  await startPeer(run, { program, settings, folder, untilCounting })
  return service
}
