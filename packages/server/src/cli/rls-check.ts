/** `tidegate rls-check`: checks a configuration folder of the rate limit service. */

import { parseArgs } from 'node:util'
import { type ConfigRemark, checkRlsConfig } from '../rls/config/check-config.ts'
import { rlsSettings } from '../rls/settings.ts'
import { count } from './count.ts'
import { type Command, exitCodes, UsageError } from './terminal.ts'

export const rlsCheckCommand: Command = {
  name: 'rls-check',
  summary: 'Check a folder of configuration of the rate limit service',
  help: `Usage: tidegate rls-check DIR

Reads all files of the folder as \`tidegate rls\` does, and starts nothing. Exit code 0: they are
valid. 1: they are not; files that envoyproxy/ratelimit refuses are refused with its messages.
`,
  async run(args, terminal) {
    const { positionals } = parseArgs({ args: [...args], allowPositionals: true })
    const [directory, ...others] = positionals
    if (directory === undefined || others.length > 0) throw new UsageError('one folder is needed')
    const { settings } = rlsSettings(terminal.environment)
    const { files, domains, rules, problems, warnings } = checkRlsConfig(directory, settings)
    for (const warning of warnings) terminal.stderr(`warning: ${lineOf(warning)}`)
    for (const problem of problems) terminal.stderr(lineOf(problem))
    if (problems.length > 0) return exitCodes.failed
    const counts = [count(files, 'file'), count(domains, 'domain'), count(rules, 'rule')]
    terminal.stdout(`${directory} is valid: ${counts.join(', ')}\n`)
    return exitCodes.ok
  },
}

function lineOf({ file, message }: ConfigRemark): string {
  return `${file}: ${message}\n`
}
