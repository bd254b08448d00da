/** `tidegate check`: whether a policy is valid, for people and for continuous integration. */

import { parseArgs } from 'node:util'
import { folderOf, readConfig } from './config.ts'
import { checkNamedFiles } from './named-files.ts'
import { type Command, exitCodes, UsageError } from './terminal.ts'

export const checkCommand: Command = {
  name: 'check',
  summary: 'Check a policy file: what is wrong, and where',
  help: `Usage: tidegate check --config FILE

Reads the policy and starts nothing. Exit code 0: it is valid. 1: it is not; each problem is a line
with file, line, column, the field, its value and what is allowed. The files that it names (keys,
certificates, tiers) are read, too; secrets are not.

  --config FILE   The policy
`,
  async run(args, terminal) {
    const { values } = parseArgs({ args: [...args], options: { config: { type: 'string' } } })
    if (values.config === undefined) throw new UsageError('--config FILE is missing')
    const { document } = await readConfig(values.config, terminal)
    checkNamedFiles(document, folderOf(values.config))
    const { limits, routes, upstreams } = document
    const counts = [
      count(limits.length, 'limit'),
      count(routes.length, 'route'),
      count(Object.keys(upstreams).length, 'upstream'),
    ]
    terminal.print(
      `${values.config} is valid: ${counts.join(', ')}, store ${document.store.mode}\n`,
    )
    return exitCodes.ok
  },
}

function count(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? '' : 's'}`
}
