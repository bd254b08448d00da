/** Our own services and the bare server, each in a process of its own that ends with the part. */

import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Run } from '../../harness/part.ts'
import { envoyCalls, limits, type RlsService, untilCountingByEnvoy } from './service.ts'

type Stops = Pick<Run, 'onStop'>

/** As the reference has it: files in `config` below the root of its runtime. */
export function writeConfig(folder: string): string {
  const directory = join(folder, 'config')
  mkdirSync(directory, { recursive: true })
  const descriptors = limits.map(({ key, limit, unit }) => {
    return { key, rate_limit: { unit, requests_per_unit: limit } }
  })
  writeFileSync(join(directory, 'config.yaml'), JSON.stringify({ domain: 'bench', descriptors }))
  return directory
}

export async function startOurs(
  run: Stops,
  name: string,
  directory: string,
  redis: string,
  transport: 'own' | 'node',
): Promise<RlsService> {
  const service = await forked(run, name, 'server.ts', [directory, redis, transport])
  await untilCountingByEnvoy(service)
  return { ...service, isOurs: true }
}

/** It only answers, so there is no counting to check. */
export function startBare(run: Stops, name: string): Promise<RlsService> {
  return forked(run, name, 'bare-server.ts', [])
}

async function forked(
  run: Stops,
  name: string,
  program: string,
  args: readonly string[],
): Promise<RlsService> {
  const child = fork(join(import.meta.dirname, program), args)
  run.onStop(() => child.kill('SIGKILL'))
  const [port] = (await once(child, 'message')) as [number]
  return { ...envoyCalls, name, isOurs: false, port }
}
