/**
 * The output of `tidegate policy` for people. Names and reasons were written by others: control
 * characters in them are replaced, so that they cannot change what a terminal shows.
 */

import type { NodeReport } from '../../control/nodes/node-report.ts'
import type { CanaryPointer } from '../../control/versions/version-record.ts'
import type { VersionInfo } from '../../control/versions/versions.ts'

export function historyText(versions: readonly VersionInfo[]): string {
  if (versions.length === 0) return 'no version was published\n'
  return versions
    .map(({ version, isCurrent, at, by, why, rollbackOf }) => {
      const mark = isCurrent ? '*' : ' '
      const back = rollbackOf === undefined ? '' : ` (version ${rollbackOf} again)`
      return `${mark} ${String(version).padStart(4)}  ${at}  ${plain(by)}: ${plain(why)}${back}\n`
    })
    .join('')
}

export function nodesText(nodes: readonly NodeReport[]): string {
  if (nodes.length === 0) return 'no node has reported\n'
  return nodes
    .map(({ node, region, version, state, problems }) => {
      const place = region === undefined ? plain(node) : `${plain(node)} (${plain(region)})`
      const lines = problems.map((problem) => `      ${plain(problem)}\n`).join('')
      return `  ${place}: version ${version}, ${plain(state)}\n${lines}`
    })
    .join('')
}

export function canaryText({ version, where, until }: CanaryPointer): string {
  const { region, nodes, share } = where
  const place =
    region !== undefined
      ? `region ${plain(region)}`
      : nodes !== undefined
        ? `nodes ${nodes.map(plain).join(', ')}`
        : `${(share ?? 0) * 100} % of the nodes`
  return `canary: version ${version} for ${place} until ${plain(until)}\n`
}

export function conflictText(message: string, diff: string): string {
  return `tidegate policy: ${plain(message)}\nfrom the live version to yours:\n${lines(diff)}`
}

function lines(text: string): string {
  return text.split('\n').map(plain).join('\n')
}

/** Also escapes of terminals and marks that change the direction of text. */
function plain(text: string): string {
  return String(text).replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, '?')
}
