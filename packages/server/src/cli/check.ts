/** `tidegate check`: checks a policy, for people and for continuous integration. */

import { parseArgs } from 'node:util'
import { readPolicyConfig } from '../app/policy-config.ts'
import { regionBounds } from '../policy/regions/region-bounds.ts'
import { count } from './count.ts'
import { type Command, exitCodes, UsageError } from './terminal.ts'

export const checkCommand: Command = {
  name: 'check',
  summary: 'Check a policy file: its problems, and where they are',
  help: `Usage: tidegate check --config FILE

Reads the policy and starts nothing. Exit code 0: it is valid. 1: it is not; each problem is a line
with file, line, column, the field, its value and the allowed values. The files that it names (keys,
certificates, tiers) are read as well; secrets are not. For limits that regions share, it prints the
guarantees of the mode in numbers, and warns if another mode fits better.

  --config FILE   The policy
`,
  async run(args, terminal) {
    const { values } = parseArgs({ args: [...args], options: { config: { type: 'string' } } })
    if (values.config === undefined) throw new UsageError('--config FILE is missing')
    const { policy } = await readPolicyConfig(values.config, terminal.environment)
    const { document } = policy.value
    const { limits, routes, upstreams } = document
    const counts = [
      count(limits.length, 'limit'),
      count(routes.length, 'route'),
      count(Object.keys(upstreams).length, 'upstream'),
    ]
    terminal.stdout(
      `${values.config} is valid: ${counts.join(', ')}, store ${document.store.mode}\n`,
    )
    for (const { text, warnings } of regionBounds(document)) {
      terminal.stdout(`${text}\n`)
      for (const warning of warnings) terminal.stdout(`warning: ${warning}\n`)
    }
    return exitCodes.ok
  },
}
