/** `tidegate probe`: checks from outside that a known limit admits exactly its number. */

import { readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { type Environment, SettingError } from '../app/environment.ts'
import { decisionApiDoor, gatewayDoor, type ProbeDoor, rlsDoor } from '../probe/probe-doors.ts'
import { startProbeService } from '../probe/probe-service.ts'
import { PROBE_CALLS, PROBE_LIMIT, type ProbeRound, Prober } from '../probe/prober.ts'
import { untilStopped } from './signals.ts'
import { type Command, exitCodes, UsageError } from './terminal.ts'

const options = {
  gateway: { type: 'string' },
  'decision-api': { type: 'string' },
  rls: { type: 'string' },
  name: { type: 'string', default: 'probe' },
  domain: { type: 'string', default: 'tidegate' },
  'token-file': { type: 'string' },
  listen: { type: 'string' },
  every: { type: 'string', default: '60' },
} as const

/** An hour: an alert over 5 minutes sees nothing of a prober that asks less often. */
const EVERY_SECONDS_MAX = 3_600

const PORT_MAX = 65_535

type Values = ReturnType<typeof parse>

export const probeCommand: Command = {
  name: 'probe',
  summary: 'Check from outside that a limit of 10 admits exactly 10 of 30 requests',
  help: `Usage: tidegate probe --gateway URL [--decision-api URL] [--rls URL] [OPTIONS]

Sends 30 requests with a new key at once to each service that is named, and compares the number of
admitted ones with the limit. The policy needs this limit, and no other that denies the prober:

  - { name: probe, key: { header: x-tidegate-probe }, otherwise: skip, limit: 10, per: 1h }

  --gateway URL        A URL of the gateway, preferably one without a route
  --decision-api URL   The decision API, with the token in TIDEGATE_PROBE_TOKEN or --token-file
  --rls URL            The HTTP port of the rate limit service
  --name LIMIT         The name of the limit. Default: probe
  --domain NAME        The domain for the rate limit service. Default: tidegate
  --token-file FILE    The file with the token of the decision API
  --listen PORT        Repeat this, and serve /metrics for Prometheus on this port of 127.0.0.1
  --every SECONDS      The pause between rounds, with --listen. Default: 60

Exit code 1: a service admitted another number, or did not answer.
`,
  async run(args, terminal) {
    const values = parse(args)
    const prober = new Prober(doorsOf(values, terminal.environment))
    if (values.listen === undefined) {
      const rounds = await prober.round()
      for (const round of rounds) terminal.stdout(`${roundText(round)}\n`)
      const isRight = rounds.every(({ counts }) => counts.right === PROBE_CALLS)
      return isRight ? exitCodes.ok : exitCodes.failed
    }
    const everySeconds = numberOf('--every', values.every, EVERY_SECONDS_MAX)
    const service = await startProbeService({
      prober,
      port: numberOf('--listen', values.listen, PORT_MAX),
      everySeconds,
      onWrong: (round) => terminal.stderr(`${roundText(round)}\n`),
    })
    const { host, port } = service.address
    terminal.stdout(`tidegate probe: http://${host}:${port}/metrics, every ${everySeconds} s\n`)
    await untilStopped()
    await service.close()
    return exitCodes.ok
  },
}

function parse(args: readonly string[]) {
  return parseArgs({ args: [...args], options }).values
}

function doorsOf(values: Values, environment: Environment): readonly ProbeDoor[] {
  const { gateway, 'decision-api': decisionApi, rls, name, domain } = values
  const doors = [
    ...(gateway === undefined ? [] : [gatewayDoor(urlOf('--gateway', gateway), name)]),
    ...(decisionApi === undefined
      ? []
      : [
          decisionApiDoor(urlOf('--decision-api', decisionApi), name, tokenOf(values, environment)),
        ]),
    ...(rls === undefined ? [] : [rlsDoor(urlOf('--rls', rls), domain)]),
  ]
  if (doors.length > 0) return doors
  throw new UsageError('name a door: --gateway URL, --decision-api URL or --rls URL')
}

function roundText({ door, admitted, counts }: ProbeRound): string {
  const { unanswered } = counts
  const rest = unanswered === 0 ? '' : `, ${unanswered} without a decision`
  return `${door}: ${admitted} of ${PROBE_CALLS} admitted, expected ${PROBE_LIMIT}${rest}`
}

function urlOf(option: string, text: string): string {
  const url = URL.parse(text)
  if (url !== null && /^https?:$/.test(url.protocol)) return url.href
  throw new UsageError(`${option} ${text}: allowed is a URL such as http://127.0.0.1:8080`)
}

function tokenOf(values: Values, environment: Environment): string {
  const file = values['token-file']
  const token = file === undefined ? environment.TIDEGATE_PROBE_TOKEN : contentOf(file)
  if (token !== undefined && /^[\x21-\x7e]+$/.test(token)) return token
  throw new SettingError('--decision-api needs a token in TIDEGATE_PROBE_TOKEN or --token-file')
}

function contentOf(file: string): string {
  try {
    return readFileSync(file, 'utf8').trim()
  } catch {
    throw new SettingError(`--token-file ${file}: cannot be read`)
  }
}

function numberOf(option: string, text: string, max: number): number {
  const value = Number(text)
  if (/^\d+$/.test(text) && value <= max) return value
  throw new UsageError(`${option} ${text}: allowed is a whole number from 0 to ${max}`)
}
