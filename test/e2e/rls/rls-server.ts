/** A rate limit service in this process, with a configuration of its own, for tests. */

import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import {
  type RlsOptions,
  type RlsService,
  startRls,
} from '../../../packages/server/src/app/rls-service.ts'
import type { ServiceEvent } from '../../../packages/server/src/observability/events.ts'
import { makeFolder, removeFolder } from '../../support/servers/server-process.ts'
import { until } from '../../support/servers/until.ts'
import { type ClientOptions, type RlsClient, rlsClient } from './rls-client.ts'

export interface TestRls {
  readonly rls: RlsService
  readonly client: RlsClient
  readonly port: number
  readonly folder: string
  /** The URL of the listener for `/json` and `/healthcheck`. */
  readonly http: string
  readonly debug: string
  /** Refused configurations and internal errors. */
  readonly errors: readonly unknown[]
  readonly events: readonly ServiceEvent[]
  /** Writes a file of the configuration. */
  write(name: string, text: string): void
  another(options?: ClientOptions): RlsClient
}

/** Longer than a test takes. */
const LATE_MS = 600_000

const anyPort = { host: '127.0.0.1', port: 0 }

/** Starts a service that stops at the end of the test. `files` by name, or one as a text. */
export async function startTestRls(
  files: string | Readonly<Record<string, string>>,
  options: Partial<RlsOptions> = {},
  client?: ClientOptions,
): Promise<TestRls> {
  const folder = makeFolder()
  const directory = join(folder, 'config')
  mkdirSync(directory)
  const write = (name: string, text: string) => writeFileSync(join(directory, name), text)
  const named = typeof files === 'string' ? { 'config.yaml': files } : files
  for (const [name, text] of Object.entries(named)) write(name, text)
  const errors: unknown[] = []
  const events: ServiceEvent[] = []
  const rls = await startRls(
    {
      configDirectory: directory,
      grpc: anyPort,
      http: anyPort,
      debug: anyPort,
      drainMs: 1_000,
      // It shares its event loop with the test, which may delay it.
      overloadDelayMs: LATE_MS,
      ...options,
    },
    (event) => {
      events.push(event)
      if (event.type === 'config-refused') errors.push(new Error(event.problems.join('\n')))
      if (event.type === 'error') errors.push(event.error)
    },
  )
  const port = 'port' in rls.addresses.grpc ? rls.addresses.grpc.port : 0
  const clients: RlsClient[] = []
  const another = (of?: ClientOptions) => {
    const made = rlsClient(port, of)
    clients.push(made)
    return made
  }
  onTestFinished(async () => {
    for (const made of clients) made.close()
    await rls.close()
    removeFolder(folder)
  })
  const http = `http://127.0.0.1:${rls.addresses.http?.port}`
  const debug = `http://127.0.0.1:${rls.addresses.debug?.port}`
  return {
    rls,
    client: another(client),
    port,
    folder: directory,
    http,
    debug,
    errors,
    events,
    write,
    another,
  }
}

/** Waits until its store answers. */
export async function untilHealthy({ http }: TestRls): Promise<void> {
  await until('the service is healthy', async () => (await fetch(`${http}/healthcheck`)).ok)
}
