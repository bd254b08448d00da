/** The output of `tidegate explain` for people. */

import type { Limit } from 'tidegate'
import type {
  ExplainedRequest,
  RequestRoute,
  RequestVerdict,
} from '../../app/explain/explain-request.ts'
import { durationText } from '../../limits/duration-text.ts'
import type { ExplainedBlock, ExplainedLimit, NumberSource } from '../../limits/explain.ts'
import type { RequestFacts } from '../../limits/request-facts.ts'

export function explainText(
  facts: Pick<RequestFacts, 'method' | 'path' | 'ip'>,
  explained: ExplainedRequest,
): string {
  const { verdict, route, tier, limits } = explained
  const applied = limits.filter(({ applies }) => applies)
  const absent = limits.filter((limit) => !limit.applies)
  const lines = [
    `${facts.method} ${facts.path} from ${facts.ip}`,
    `verdict: ${verdictText(verdict)}`,
    `route: ${routeText(route)}`,
    ...(tier === undefined ? [] : [`tier: ${tier}`]),
    ...switchLines(explained),
    ...(explained.block === undefined ? [] : [`block: ${blockText(explained.block)}`]),
    '',
    applied.length === 0 ? 'No limit applies.' : 'These apply, in this order:',
    ...applied.flatMap(appliedLines),
    ...section('These refuse it with 401:', absent.filter(isRefusing)),
    ...section(
      'These do not apply:',
      absent.filter((limit) => !isRefusing(limit)),
    ),
  ]
  return `${lines.join('\n')}\n`
}

function verdictText({ outcome, status, by, reason }: RequestVerdict): string {
  if (outcome !== 'refused') return `${outcome}: ${reason}`
  return `refused with ${status}${by === undefined ? '' : ` by ${by}`}: ${reason}`
}

function routeText(route: RequestRoute | undefined): string {
  if (route === undefined) return 'none'
  const { index, upstream } = route
  return index === undefined ? `the only upstream, ${upstream}` : `routes[${index}] to ${upstream}`
}

function switchLines({ switch: { limits, blocks, until } }: ExplainedRequest): string[] {
  if (limits === 'on' && blocks === 'on') return []
  return [`switch: limits ${limits}, blocks ${blocks}, ${untilText(until)}; wins over all limits`]
}

function blockText({ id, kind, answer, until, instead }: ExplainedBlock): string {
  return `by ${kind}, ${id}, with ${answer} ${untilText(until)}; wins over ${instead}`
}

function untilText(until: number | null): string {
  return until === null ? 'without an end' : `until ${new Date(until).toISOString()}`
}

function isRefusing(limit: ExplainedLimit): boolean {
  return !limit.applies && limit.refuses
}

function section(heading: string, limits: readonly ExplainedLimit[]): string[] {
  if (limits.length === 0) return []
  const lines = limits.map((limit) => `  ${limit.name}: ${limit.applies ? '' : limit.reason}`)
  return ['', heading, ...lines]
}

function appliedLines(limit: ExplainedLimit): string[] {
  if (!limit.applies) return []
  const mode = limit.mode === 'enforce' ? '' : ` (${limit.mode})`
  const fallback = limit.isFallback ? ', because the first kind of key is missing' : ''
  const source = sourceTexts[limit.source]
  const losers = limit.instead.map((one) => `the ${one}`).join(', ')
  const instead = limit.source === 'limit' ? '' : `    wins over: ${losers}`
  return [
    `  ${limit.name}${mode}: ${amountOf(limit.limit)}${source}; costs ${limit.cost}`,
    `    key ${limit.keyKind}: ${keyText(limit.keyParts)}${fallback}`,
    ...(instead === '' ? [] : [instead]),
    ...(limit.within === undefined ? [] : [`    within: ${keyText(limit.within)}`]),
  ]
}

const sourceTexts: Readonly<Record<NumberSource, string>> = {
  limit: '',
  tier: ', of the tier',
  override: ', of an override',
  'live override': ', of a live override',
}

/** Long values are shown as the digests that the store has. */
function keyText(parts: readonly string[]): string {
  return parts.map((part) => part.replace(/^~h:/, 'digest ')).join(', ')
}

export function amountOf(limit: Limit): string {
  const { algorithm } = limit
  switch (algorithm) {
    case 'tokenBucket':
      return `${limit.limit} per ${durationText(limit.perMs)}, burst ${limit.burst} (${algorithm})`
    case 'fixedWindow': {
      const { per } = limit
      const text = typeof per === 'number' ? durationText(per) : `${per.unit} in ${per.timeZone}`
      return `${limit.limit} per ${text} (${algorithm})`
    }
    case 'concurrency':
      return `${limit.limit} at once, each for up to ${durationText(limit.ttlMs)} (${algorithm})`
    default:
      return `${limit.limit} per ${durationText(limit.perMs)} (${algorithm})`
  }
}
