/** `tidegate gateway`: the reverse proxy, until it is told to stop. */

import { parseArgs } from 'node:util'
import { type RunningService, type ServicePolicy, startService } from '../compose.ts'
import { SettingError } from '../environment.ts'
import { jsonLogger } from '../gateway/logger.ts'
import { openPolicy, type PolicySource } from '../policy/policy-source.ts'
import { secretReader } from '../policy/secrets.ts'
import { configFromEnvironment, folderOf, otherFiles, refusedPolicy, withSwitch } from './config.ts'
import { checkNamedFiles } from './named-files.ts'
import { logWarnings } from './process-warnings.ts'
import { untilStopped } from './signals.ts'
import { startError } from './start-error.ts'
import { type Command, exitCodes, type Terminal, UsageError } from './terminal.ts'
import { version } from './version.ts'
import { isWorker, leaveSupervisor, superviseWorkers } from './workers.ts'

const WORKERS_MAX = 256

export const gatewayCommand: Command = {
  name: 'gateway',
  summary: 'The reverse proxy that applies a policy',
  help: `Usage: tidegate gateway [--config FILE] [--workers N]

Forwards requests to the upstreams of the policy and applies its limits. The file is watched: a
valid change applies within a second, an invalid one is refused with its problems.

  --config FILE   The policy. Without it, settings come from the environment: BUCKET_SIZE,
                  REFILL_RATE, BACKEND_URL, PORT, REDIS_MODE (memory, standalone, sentinel,
                  cluster), REDIS_ADDR, REDIS_ADDRS, REDIS_USERNAME, REDIS_PASSWORD or
                  REDIS_PASSWORD_FILE, REDIS_TLS, REDIS_SENTINEL_NAME
  --workers N     So many processes on one port; they need a store that they share

RATE_LIMIT_ENABLED=false admits everything. SIGTERM and Ctrl+C end requests under way first; with
--workers, SIGHUP exchanges the processes one by one.
`,
  async run(args, terminal) {
    const { values } = parseArgs({
      args: [...args],
      options: { config: { type: 'string' }, workers: { type: 'string' } },
    })
    const workers = workersOf(values.workers)
    const opened = await openConfig(values.config, terminal)
    checkNamedFiles(opened.policy.document, folderOf(values.config))
    if (workers > 1) refuseUnshared(opened.policy)
    if (workers > 1 && !isWorker) {
      opened.source?.close()
      return superviseWorkers(workers, terminal)
    }
    const service = await start(opened, values.config, terminal)
    await untilStopped()
    opened.source?.close()
    await service.close()
    leaveSupervisor()
    return exitCodes.ok
  },
}

interface OpenedConfig {
  policy: ServicePolicy
  readonly source: PolicySource | undefined
  /** Set once there is somebody to tell. */
  service: RunningService | undefined
}

async function openConfig(file: string | undefined, terminal: Terminal): Promise<OpenedConfig> {
  if (file === undefined) {
    return { policy: configFromEnvironment(terminal), source: undefined, service: undefined }
  }
  let opened: OpenedConfig | undefined
  const result = await openPolicy(file, {
    otherFiles,
    onPolicy: (policy) => opened?.service && apply(opened.service, withSwitch(policy, terminal)),
    onRefused: (problems) => opened?.service?.refuse(problems),
  })
  if (!result.ok) throw refusedPolicy(result.problems)
  const { source } = result
  opened = { policy: withSwitch(source.current, terminal), source, service: undefined }
  return opened
}

/** What cannot be used although it is valid, such as a key file that is gone, is refused, too. */
function apply(service: RunningService, policy: ServicePolicy): void {
  try {
    service.apply(policy)
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    service.refuse([{ file: '', line: 1, column: 1, path: '', message }])
  }
}

async function start(
  opened: OpenedConfig,
  file: string | undefined,
  terminal: Terminal,
): Promise<RunningService> {
  const { policy } = opened
  const folder = folderOf(file)
  const logger = jsonLogger(policy.document.log.level)
  logWarnings((warning) => logger.warn({ event: 'process.warning', ...warning }))
  try {
    const service = await startService({
      policy,
      folder,
      logger,
      readSecret: secretReader(terminal.environment, folder),
      version: version(),
    })
    opened.service = service
    if (opened.source !== undefined && opened.source.current !== policy) {
      void opened.source.reload()
    }
    announce(service, policy, terminal)
    return service
  } catch (error) {
    throw startError(error, portSetting(error, policy))
  }
}

/** Which of the listeners it was. */
function portSetting(error: unknown, { document }: ServicePolicy): string {
  const { port } = error as { readonly port?: number }
  if (port === document.gateway.listen.port) return 'gateway.listen.port, or PORT'
  return port === document.admin?.listen.port ? 'admin.listen.port' : 'decisionApi.listen.port'
}

function announce(service: RunningService, policy: ServicePolicy, terminal: Terminal): void {
  const { document } = policy
  const targets = Object.values(document.upstreams).flatMap((upstream) => upstream.targets)
  const behind = targets.join(', ') || 'no upstream: every request is answered with 404'
  const lines = [`gateway: ${service.gateway.url} → ${behind}`]
  const isMemory = document.store.mode === 'memory'
  const note = isMemory ? ' (no Redis is configured; each process counts for itself)' : ''
  lines.push(`counters: ${service.store.description}${note}`)
  if (!service.store.isConnected())
    lines.push('Redis does not answer: until it does, each limit decides as its onStoreError says')
  if (!document.enabled) lines.push('limiting is turned off: everything is admitted')
  const { decisionApi, admin } = service
  if (decisionApi !== undefined) lines.push(`decision API: port ${decisionApi.address.port}`)
  if (admin !== undefined) lines.push(`status: port ${admin.address.port}`)
  terminal.complain(lines.map((line) => `tidegate: ${line}\n`).join(''))
}

function workersOf(text = '1'): number {
  const workers = Number(text)
  if (Number.isSafeInteger(workers) && workers >= 1 && workers <= WORKERS_MAX) return workers
  throw new UsageError(`--workers ${text}: allowed is a number from 1 to ${WORKERS_MAX}`)
}

function refuseUnshared({ document }: ServicePolicy): void {
  if (document.store.mode !== 'memory') return
  const why = 'each would count in its own memory and admit the whole limit'
  throw new SettingError(`--workers needs a store that they share, such as Redis: ${why}`)
}
