/** `tidegate rls`: the rate limit service for Envoy. Runs until a signal stops it. */

import { parseArgs } from 'node:util'
import { type Environment, SettingError } from '../app/environment.ts'
import { rlsControl, type SourceChoice } from '../app/etcd-access.ts'
import { readPolicyConfig } from '../app/policy-config.ts'
import { rlsParts } from '../app/policy-parts.ts'
import { startPolicyService } from '../app/policy-service.ts'
import { addressText } from '../app/rls-listeners.ts'
import { type RlsService, startRls } from '../app/rls-service.ts'
import { logEvents } from '../observability/event-log.ts'
import { type Emit, ServiceEvents } from '../observability/events.ts'
import { messageLines } from '../observability/logger.ts'
import {
  type EnvironmentSettings,
  type RlsSettings,
  rlsSettings,
  type Transport,
  transports,
} from '../rls/settings.ts'
import { reportWarnings } from './process-warnings.ts'
import { untilStopped } from './signals.ts'
import { sourceChoice, sourceHelp, sourceOptions } from './source-flags.ts'
import { startError } from './start-error.ts'
import { type Command, exitCodes, type Terminal, UsageError } from './terminal.ts'
import { version } from './version.ts'

export const rlsCommand: Command = {
  name: 'rls',
  summary: 'The rate limit service for Envoy, in place of envoyproxy/ratelimit',
  help: `Usage: tidegate rls [--config FILE | --config-dir DIR] [OPTIONS]

Serves envoy.service.ratelimit.v3.RateLimitService on port 8081, HTTP on 8080 and debug pages on
6070 of the loopback address. Reads the YAML files of envoyproxy/ratelimit unchanged, or a policy,
and follows them while it runs. An invalid change is refused, and the live configuration stays.

  --config FILE      A policy, with limits and store. Its section rateLimitService has the listeners
  --config-dir DIR   The folder of the YAML files. Default: RUNTIME_ROOT and
                     RUNTIME_SUBDIRECTORY, as for envoyproxy/ratelimit
  --transport NAME   own (default): the HTTP/2 server of Tidegate, made for many small calls;
                     node: node:http2
  --admin-port PORT         With Envoy's files: serve the admin API on this port of the loopback
                            address. Default: TIDEGATE_ADMIN_PORT, or none
  --admin-token-file FILE   The file of its first token, with the role admin. Default:
                            TIDEGATE_ADMIN_TOKEN_FILE, or the token in TIDEGATE_ADMIN_TOKEN
${sourceHelp}
Other settings are the environment variables of envoyproxy/ratelimit: docs/envoy-settings.md.
SIGTERM and Ctrl+C report unhealthy first, then finish open calls.
`,
  async run(args, terminal) {
    const { values } = parseArgs({
      args: [...args],
      options: {
        config: { type: 'string' },
        'config-dir': { type: 'string' },
        transport: { type: 'string' },
        ...sourceOptions,
        'admin-port': { type: 'string' },
        'admin-token-file': { type: 'string' },
      },
    })
    const { config, 'config-dir': directory } = values
    if (config !== undefined && directory !== undefined) {
      throw new UsageError('--config and --config-dir exclude each other')
    }
    const transport = transportOf(values.transport)
    const choice = sourceChoice(values)
    const environment = {
      ...terminal.environment,
      ...(values['admin-port'] && { TIDEGATE_ADMIN_PORT: values['admin-port'] }),
      ...(values['admin-token-file'] && { TIDEGATE_ADMIN_TOKEN_FILE: values['admin-token-file'] }),
    }
    const { settings, notes } = readSettings(environment, config !== undefined)
    const emit = logTo(terminal, settings, notes)
    const control = config === undefined ? rlsControl(settings.control, choice) : undefined
    const all = { ...settings, ...transport, control }
    try {
      const service =
        config === undefined
          ? await startRls(
              {
                ...all,
                configDirectory: directory ?? all.configDirectory,
                version: version(),
                environment,
              },
              emit,
            )
          : await startWithPolicy({ file: config, choice }, all, terminal, emit)
      terminal.stderr(`tidegate rls: ${service.description}\n`)
      await untilStopped()
      await service.close()
      return exitCodes.ok
    } catch (error) {
      throw startError(error, 'PORT, GRPC_PORT, DEBUG_PORT or TIDEGATE_ADMIN_PORT')
    }
  },
}

/** Logs by LOG_LEVEL and LOG_FORMAT. Returns the emitter of the service. */
function logTo(terminal: Terminal, settings: RlsSettings, notes: readonly string[]): Emit {
  const { logLevel: level, logFormat: format } = settings
  const write = (text: string) => terminal.stderr(text)
  const writeLine = messageLines({ level, format, name: 'tidegate rls', write })
  const events = new ServiceEvents()
  events.subscribe(logEvents(writeLine))
  for (const text of notes) events.emit({ type: 'setting-ignored', text })
  reportWarnings(events.emit)
  return events.emit
}

async function startWithPolicy(
  { file, choice }: { readonly file: string; readonly choice: SourceChoice },
  settings: RlsSettings,
  { environment }: Terminal,
  emit: Emit,
): Promise<Pick<RlsService, 'description' | 'close'>> {
  const config = await readPolicyConfig(file, environment, {
    program: `tidegate rls ${version()}`,
    ...choice,
  })
  const { overloadDelayMs: delay, callsMax: requestsMax } = settings
  const service = await startPolicyService({
    config,
    environment,
    emit,
    logLevel: settings.logLevel,
    version: version(),
    overload: { delay, requestsMax, criticalShare: 0 },
    parts: rlsParts(config, settings),
  })
  const address = service.rateLimitService?.addresses.grpc
  const place = address === undefined ? '' : addressText(address)
  const description = `${place}, counters in ${service.store.description}`
  return { description, close: () => service.close() }
}

function readSettings(environment: Environment, hasPolicy: boolean): EnvironmentSettings {
  try {
    return rlsSettings(environment, hasPolicy)
  } catch (error) {
    throw new SettingError(error instanceof Error ? error.message : String(error))
  }
}

function transportOf(name: string | undefined): { readonly transport?: Transport } {
  if (name === undefined) return {}
  const transport = transports.find((known) => known === name)
  if (transport !== undefined) return { transport }
  throw new UsageError(`--transport ${name}: allowed is ${transports.join(' or ')}`)
}
