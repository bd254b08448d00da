/** `tidegate rls-check`: whether a folder of configuration of the rate limit service is valid. */

import { parseArgs } from 'node:util'
import { type ConfigRemark, checkRlsConfig } from '../rls/config/check-config.ts'
import { rlsSettings } from '../rls/settings.ts'
import { type Command, exitCodes, UsageError } from './terminal.ts'

export const rlsCheckCommand: Command = {
  name: 'rls-check',
  summary: 'Check a folder of configuration of the rate limit service',
  help: `Usage: tidegate rls-check DIR

Reads all files of the folder as \`tidegate rls\` does, and starts nothing. Exit code 0: they are
valid. 1: they are not; what envoyproxy/ratelimit refuses is refused with its words.
`,
  async run(args, terminal) {
    const { positionals } = parseArgs({ args: [...args], allowPositionals: true })
    const [directory, ...others] = positionals
    if (directory === undefined || others.length > 0) throw new UsageError('one folder is needed')
    const { settings } = rlsSettings(terminal.environment)
    const { files, domains, rules, problems, warnings } = checkRlsConfig(directory, settings)
    for (const warning of warnings) terminal.complain(`warning: ${lineOf(warning)}`)
    for (const problem of problems) terminal.complain(lineOf(problem))
    if (problems.length > 0) return exitCodes.failed
    const counts = `${files} files, ${domains} domains, ${rules} rules`
    terminal.print(`${directory} is valid: ${counts}\n`)
    return exitCodes.ok
  },
}

function lineOf({ file, message }: ConfigRemark): string {
  return `${file}: ${message}\n`
}
