/** Finds the command of a command line, runs it, and prints its help and its errors. */

import { SettingError } from '../app/environment.ts'
import { maskSecrets } from '../config/mask-secrets.ts'
import { checkCommand } from './check.ts'
import { auditCommand } from './control/audit.ts'
import { blockCommand, unblockCommand } from './control/block.ts'
import { counterCommand } from './control/counter.ts'
import { overrideCommand } from './control/override.ts'
import { policyCommand } from './control/policy.ts'
import { regionsCommand } from './control/regions.ts'
import { switchCommand } from './control/switch.ts'
import { tokenCommand } from './control/token.ts'
import { topCommand } from './control/top.ts'
import { explainCommand } from './explain/explain.ts'
import { planCommand } from './plan.ts'
import { gatewayCommand, serveCommand } from './policy-commands.ts'
import { probeCommand } from './probe.ts'
import { rlsCommand } from './rls.ts'
import { rlsCheckCommand } from './rls-check.ts'
import { type Command, exitCodes, type Terminal, UsageError } from './terminal.ts'
import { version } from './version.ts'

const commands: readonly Command[] = [
  gatewayCommand,
  serveCommand,
  checkCommand,
  explainCommand,
  rlsCommand,
  rlsCheckCommand,
  planCommand,
  probeCommand,
  policyCommand,
  overrideCommand,
  blockCommand,
  unblockCommand,
  switchCommand,
  counterCommand,
  tokenCommand,
  auditCommand,
  topCommand,
  regionsCommand,
]

export async function runCli(args: readonly string[], terminal: Terminal): Promise<number> {
  const [name = 'help', ...rest] = args
  if (['help', '-h', '--help'].includes(name)) return showHelp(rest[0], terminal)
  if (['version', '-v', '--version'].includes(name)) {
    terminal.stdout(`tidegate ${version()}\n`)
    return exitCodes.ok
  }
  const command = commands.find((known) => known.name === name)
  if (command === undefined) {
    terminal.stderr(`tidegate: unknown command: ${name}\n\n${overview()}`)
    return exitCodes.usage
  }
  if (rest.includes('--help') || rest.includes('-h')) return showHelp(name, terminal)
  try {
    return await command.run(rest, terminal)
  } catch (error) {
    if (isUsage(error)) {
      const hint = `See: tidegate ${name} --help`
      const text = maskSecrets((error as Error).message)
      terminal.stderr(`tidegate ${name}: ${text}\n${hint}\n`)
      return exitCodes.usage
    }
    if (error instanceof SettingError) {
      terminal.stderr(`tidegate ${name}: ${maskSecrets(error.message)}\n`)
      return exitCodes.failed
    }
    throw error
  }
}

function showHelp(name: string | undefined, terminal: Terminal): number {
  const command = commands.find((known) => known.name === name)
  terminal.stdout(command?.help ?? overview())
  return exitCodes.ok
}

function overview(): string {
  const lines = commands.map(({ name, summary }) => `  ${name.padEnd(12)}${summary}\n`)
  return `Usage: tidegate COMMAND [OPTIONS]

${lines.join('')}  version     Print the version
  help        Print this text; help COMMAND prints the options of a command
`
}

/** Also true for the errors of util.parseArgs about unknown options. */
function isUsage(error: unknown): boolean {
  if (error instanceof UsageError) return true
  const { code } = error as NodeJS.ErrnoException
  return typeof code === 'string' && code.startsWith('ERR_PARSE_ARGS')
}
