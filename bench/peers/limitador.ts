/** Limitador, which speaks Envoy's protocol, with the same limits and the same Redis as ours. */

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { freePort } from '../../test/support/servers/ports.ts'
import type { Program } from '../../tools/install/install-program.ts'
import type { Run } from '../harness/part.ts'
import { envoyCalls, limits, type RlsService, untilCountingByEnvoy } from '../parts/rls/service.ts'
import { startPeer } from './start-peer.ts'

/** Only its library is on crates.io; the server is built from its repository. */
export const limitador: Program = {
  name: 'Limitador',
  variable: 'TIDEGATE_LIMITADOR',
  file: 'limitador/limitador-server',
}

export async function startLimitador(
  run: Pick<Run, 'onStop'>,
  program: string,
  folder: string,
  redis: string,
): Promise<RlsService> {
  const [port, http] = await Promise.all([freePort(), freePort()])
  const service = { ...envoyCalls, name: limitador.name, isOurs: false, port }
  const file = join(folder, 'limitador.json')
  writeFileSync(file, JSON.stringify(limits.map(limitOf)))
  const settings = {
    ENVOY_RLS_HOST: '127.0.0.1',
    ENVOY_RLS_PORT: String(port),
    HTTP_API_HOST: '127.0.0.1',
    HTTP_API_PORT: String(http),
  }
  const args = [file, 'redis', `redis://${redis}`]
  const untilCounting = () => untilCountingByEnvoy(service)
  await startPeer(run, { program, args, settings, folder, untilCounting })
  return service
}

/** A limit applies to descriptors that have its variable. Its file is YAML, which JSON also is. */
function limitOf({ key, limit, seconds }: (typeof limits)[number]) {
  const variables = [`descriptors[0]['${key}']`]
  return { namespace: 'bench', max_value: limit, seconds, conditions: [], variables }
}
