/** `tidegate rls`: the rate limit service for Envoy, until it is told to stop. */

import { parseArgs } from 'node:util'
import { type Environment, SettingError } from '../environment.ts'
import type { OverloadEvent } from '../overload/overload.ts'
import {
  type EnvironmentSettings,
  type LogLevel,
  logLevels,
  type RlsSettings,
  rlsSettings,
  type Transport,
  transports,
} from '../rls/settings.ts'
import { startRls } from '../rls/start-rls.ts'
import { logWarnings } from './process-warnings.ts'
import { untilStopped } from './signals.ts'
import { startError } from './start-error.ts'
import { type Command, exitCodes, type Terminal, UsageError } from './terminal.ts'

export const rlsCommand: Command = {
  name: 'rls',
  summary: 'The rate limit service for Envoy, in place of envoyproxy/ratelimit',
  help: `Usage: tidegate rls [--config-dir DIR] [--transport own|node]

Serves envoy.service.ratelimit.v3.RateLimitService on port 8081, HTTP on 8080 and debug pages on
6070 of the loopback address. Reads the YAML files of envoyproxy/ratelimit unchanged, and follows
them while it runs; a bad file is refused and the configuration before stays.

  --config-dir DIR   The folder of the files. Without it, RUNTIME_ROOT and RUNTIME_SUBDIRECTORY
                     say where it is, as for envoyproxy/ratelimit
  --transport NAME   own (default): HTTP/2 of our own, made for many small calls; node: node:http2

Other settings are the environment variables of envoyproxy/ratelimit: docs/envoy-settings.md.
SIGTERM and Ctrl+C turn health bad first, then let calls end.
`,
  async run(args, terminal) {
    const { values } = parseArgs({
      args: [...args],
      options: { 'config-dir': { type: 'string' }, transport: { type: 'string' } },
    })
    const { settings, notes } = readSettings(terminal.environment)
    const configDirectory = values['config-dir'] ?? settings.configDirectory
    const log = logger(settings, terminal)
    for (const note of notes) log('warn', note)
    logWarnings(({ reason }) => log('warn', reason))
    try {
      const service = await startRls(
        { ...settings, configDirectory, ...transportOf(values.transport) },
        {
          onConfigLoaded: (rules) => log('info', `${rules} rules loaded from ${configDirectory}`),
          onConfigError: (error) => log('error', `configuration refused: ${error.message}`),
          onConnectionError: (error) => log('warn', `redis: ${error.message}`),
          onOverload: (event) => log('warn', overloadText(event)),
          onError: (error) => log('error', error instanceof Error ? error.message : String(error)),
        },
      )
      terminal.complain(`tidegate rls: ${service.description}\n`)
      await untilStopped()
      await service.close()
      return exitCodes.ok
    } catch (error) {
      throw startError(error, 'PORT, GRPC_PORT or DEBUG_PORT')
    }
  },
}

function readSettings(environment: Environment): EnvironmentSettings {
  try {
    return rlsSettings(environment)
  } catch (error) {
    throw new SettingError(error instanceof Error ? error.message : String(error))
  }
}

function overloadText(event: OverloadEvent): string {
  if (event.type === 'overloaded') {
    const delay = `the event loop is ${Math.round(event.delayMs)} ms late`
    return `overloaded, calls are shed: ${delay}, ${event.requests} calls in flight`
  }
  return `not overloaded any more: ${event.shed.sheddable} calls were shed`
}

/** As `LOG_LEVEL` and `LOG_FORMAT` say. */
function logger({ logLevel, logFormat }: RlsSettings, terminal: Terminal) {
  const least = logLevels.indexOf(logLevel)
  return (level: LogLevel, message: string) => {
    if (logLevels.indexOf(level) < least) return
    const line =
      logFormat === 'json'
        ? JSON.stringify({ level, ts: new Date().toISOString(), message })
        : `tidegate rls: ${message}`
    terminal.complain(`${line}\n`)
  }
}

function transportOf(name: string | undefined): { readonly transport?: Transport } {
  if (name === undefined) return {}
  const transport = transports.find((known) => known === name)
  if (transport !== undefined) return { transport }
  throw new UsageError(`--transport ${name}: allowed is ${transports.join(' or ')}`)
}
