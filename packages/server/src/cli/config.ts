/** The policy of a command: from `--config`, or from the environment without it. */

import { dirname, resolve } from 'node:path'
import type { ServicePolicy } from '../compose.ts'
import { isEnabled, policyFromEnvironment, SettingError } from '../environment.ts'
import { loadPolicy, type OtherFiles } from '../policy/load-policy.ts'
import { type PolicyProblem, PROBLEMS_MAX } from '../policy/policy-problem.ts'
import { parsePolicy } from '../policy/read-policy.ts'
import type { Terminal } from './terminal.ts'

/** Files whose change is a change of the policy: keys, certificates, tokens. */
export const otherFiles: OtherFiles = ({ auth, gateway, upstreams }) => {
  const { tls } = gateway
  const named = [auth.apiKeys?.file, auth.jwt?.jwksFile, tls?.cert, tls?.key, tls?.clientCa]
  for (const { tls: ofUpstream } of Object.values(upstreams)) {
    named.push(ofUpstream?.ca, ofUpstream?.cert, ofUpstream?.key)
  }
  return named.filter((file) => file !== undefined)
}

/** Reads it once; throws with all problems where it is not valid. */
export async function readConfig(file: string, terminal: Terminal): Promise<ServicePolicy> {
  const loaded = await loadPolicy(file, otherFiles)
  if (!loaded.ok) throw refusedPolicy(loaded.problems)
  const { document, tierTable, hash } = loaded
  const version = { id: hash.slice(0, 12), loadedAtMs: Date.now() }
  return withSwitch({ document, tierTable, version }, terminal)
}

export function configFromEnvironment(terminal: Terminal): ServicePolicy {
  const result = parsePolicy(policyFromEnvironment(terminal.environment), 'environment')
  if (!result.ok) throw refusedPolicy(result.problems)
  const version = { id: 'environment', loadedAtMs: Date.now() }
  return { document: result.document, tierTable: undefined, version }
}

/** `RATE_LIMIT_ENABLED` wins over the file: it is there for the moment when files cannot wait. */
export function withSwitch(policy: ServicePolicy, terminal: Terminal): ServicePolicy {
  const enabled = isEnabled(terminal.environment)
  if (enabled === undefined) return policy
  return { ...policy, document: { ...policy.document, enabled } }
}

export function refusedPolicy(problems: readonly PolicyProblem[]): SettingError {
  const lines = problems.map(({ message }) => message)
  const atLeast = lines.length < PROBLEMS_MAX ? '' : 'at least '
  const count = lines.length === 1 ? 'a problem' : `${atLeast}${lines.length} problems`
  return new SettingError(`the policy has ${count}:\n${lines.join('\n')}`)
}

/** Where relative file names begin. */
export function folderOf(file: string | undefined): string {
  return file === undefined ? process.cwd() : dirname(resolve(file))
}
