/**
 * `tidegate gateway`, the reverse proxy, and `tidegate serve`, everything that a policy has a
 * section for. Both run until a signal stops them.
 */

import { parseArgs } from 'node:util'
import { SettingError } from '../app/environment.ts'
import { type PolicyConfig, readPolicyConfig, type ServicePolicy } from '../app/policy-config.ts'
import { gatewayParts, sectionParts } from '../app/policy-parts.ts'
import {
  type GatewayPart,
  type PolicyService,
  type PolicyServiceParts,
  startPolicyService,
} from '../app/policy-service.ts'
import { logEvents } from '../observability/event-log.ts'
import { ServiceEvents } from '../observability/events.ts'
import { LineSink } from '../observability/lines/line-sink.ts'
import { jsonLines, jsonLogger } from '../observability/logger.ts'
import { announce } from './announce.ts'
import { reportWarnings } from './process-warnings.ts'
import { onReopen, untilStopped } from './signals.ts'
import { sourceChoice, sourceHelp, sourceOptions } from './source-flags.ts'
import { startError } from './start-error.ts'
import { type Command, exitCodes, type Terminal, UsageError } from './terminal.ts'
import { version } from './version.ts'
import {
  adminConnections,
  INSTANCE_VARIABLE,
  isWorker,
  leaveSupervisor,
  superviseWorkers,
  workerPage,
} from './workers.ts'

/** More than any machine has cores for. */
const WORKERS_MAX = 256

const SIGNALS = `SIGTERM and Ctrl+C finish open requests first. With --workers, SIGHUP restarts the
processes one by one. SIGUSR1 opens the file of the access log again, after it was renamed.
`

export const gatewayCommand: Command = {
  name: 'gateway',
  summary: 'The reverse proxy that applies a policy',
  help: `Usage: tidegate gateway [--config FILE] [--workers N] [--config-source etcd ...]

Forwards requests to the upstreams of the policy and applies its limits. The file is watched: a
valid change applies within a second, an invalid one is refused with its problems.

  --config FILE   The policy. Without it, settings come from the environment: BUCKET_SIZE,
                  REFILL_RATE, BACKEND_URL, PORT, REDIS_MODE (memory, standalone, sentinel,
                  cluster), REDIS_ADDR, REDIS_ADDRS, REDIS_USERNAME, REDIS_PASSWORD or
                  REDIS_PASSWORD_FILE, REDIS_TLS, REDIS_SENTINEL_NAME
  --workers N     The number of processes that share the port. They need a shared store
${sourceHelp}
TIDEGATE_ENABLED=0 admits everything, even if the policy is enabled. RATE_LIMIT_ENABLED is its
older name.

${SIGNALS}`,
  run: (args, terminal) =>
    run(args, terminal, ({ policy }, gateway) => {
      if (policy.value.document.rateLimitService !== undefined) {
        const hint = 'tidegate serve starts all sections'
        terminal.stderr(`tidegate: rateLimitService is not started; ${hint}\n`)
      }
      return gatewayParts(gateway)
    }),
}

export const serveCommand: Command = {
  name: 'serve',
  summary: 'Everything that a policy has a section for, in one process',
  help: `Usage: tidegate serve --config FILE [--workers N] [--config-source etcd ...]

Starts the gateway if the policy has upstreams, and the decision API, the rate limit service for
Envoy and the listener for operators if it has the sections decisionApi, rateLimitService and
admin. All of them apply the same limits to the same counters. The file is watched: a valid change
applies within a second, an invalid one is refused with its problems.

  --config FILE   The policy
  --workers N     The number of processes that share the ports. They need a shared store
${sourceHelp}
TIDEGATE_ENABLED=0 admits everything, even if the policy is enabled.

${SIGNALS}`,
  run: (args, terminal) =>
    run(args, terminal, (config, gateway) => {
      if (config.source === undefined) throw new UsageError('--config FILE is missing')
      return sectionParts(config, gateway)
    }),
}

type PartsOf = (config: PolicyConfig, gateway: GatewayPart) => PolicyServiceParts

async function run(args: readonly string[], terminal: Terminal, partsOf: PartsOf): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: { config: { type: 'string' }, workers: { type: 'string' }, ...sourceOptions },
  })
  const workers = workersOf(values.workers)
  const isSupervisor = workers > 1 && !isWorker
  const program = `tidegate ${version()}`
  const follow = { program, isWorker, ...sourceChoice(values) }
  // The supervisor only checks the file: its workers are the nodes that follow etcd.
  const known = isSupervisor ? undefined : follow
  const config = await readPolicyConfig(values.config, terminal.environment, known)
  const gateway = { instance: terminal.environment[INSTANCE_VARIABLE] }
  const parts = await partsOrClose(config, () => {
    if (workers > 1) refuseUnshared(config.policy)
    return partsOf(config, gateway)
  })
  if (isSupervisor) return superviseWorkers(workers, terminal)
  const stdout = new LineSink(1, { isShared: workers > 1 })
  process.on('exit', () => stdout.flushSync())
  const starting = start({ config, parts, stdout, terminal, isWorker: workers > 1 })
  // A signal before the end of the start may come after the file was opened.
  const reopen = (service: PolicyService) => service.reopenLogs()
  onReopen(() => void starting.then(reopen, () => undefined))
  const service = await starting
  await untilStopped()
  await service.close()
  await stdout.close()
  await leaveSupervisor()
  return exitCodes.ok
}

/** A source that stays open would keep the process from ending after the error. */
async function partsOrClose(
  config: PolicyConfig,
  partsOf: () => PolicyServiceParts,
): Promise<PolicyServiceParts> {
  try {
    return partsOf()
  } catch (error) {
    await config.control?.plane.close()
    throw error
  }
}

interface StartParts {
  readonly config: PolicyConfig
  readonly parts: PolicyServiceParts
  readonly stdout: LineSink
  readonly terminal: Terminal
  readonly isWorker: boolean
}

async function start(given: StartParts): Promise<PolicyService> {
  const { config, parts, stdout, terminal, isWorker } = given
  const logger = jsonLogger(config.policy.value.document.log.level, stdout)
  const { environment } = terminal
  const events = new ServiceEvents()
  events.subscribe(logEvents(jsonLines(logger)))
  reportWarnings(events.emit)
  const { emit } = events
  try {
    const service = await startPolicyService({
      config,
      environment,
      emit,
      parts,
      version: version(),
      isWorker,
      stdout,
      ...(workerPage !== undefined && { pageOfAll: workerPage.ofAll }),
      ...(adminConnections !== undefined && { adminConnections }),
    })
    announce(service, config.policy.value.document, terminal)
    return service
  } catch (error) {
    throw startError(error, portSetting(error, config.policy))
  }
}

/** Returns the setting of the listener that failed. */
function portSetting(error: unknown, { value: { document } }: ServicePolicy): string {
  const { port } = error as { readonly port?: number }
  const { gateway, admin, decisionApi, rateLimitService } = document
  if (port === gateway.listen.port) return 'gateway.listen.port, or PORT'
  if (port === admin?.listen.port) return 'admin.listen.port'
  if (port === decisionApi?.listen.port) return 'decisionApi.listen.port'
  if (port === rateLimitService?.http?.port) return 'rateLimitService.http.port'
  if (port === rateLimitService?.debug?.port) return 'rateLimitService.debug.port'
  return 'rateLimitService.listen.port'
}

function workersOf(text = '1'): number {
  const workers = Number(text)
  if (Number.isSafeInteger(workers) && workers >= 1 && workers <= WORKERS_MAX) return workers
  throw new UsageError(`--workers ${text}: allowed is a number from 1 to ${WORKERS_MAX}`)
}

function refuseUnshared({ value }: ServicePolicy): void {
  if (value.document.store.mode !== 'memory') return
  const why = 'each would count in its own memory and admit the whole limit'
  throw new SettingError(`--workers needs a store that they share, such as Redis: ${why}`)
}
