/** From a command line to a command: finds it, shows its help, and says what is wrong with it. */

import { SettingError } from '../environment.ts'
import { checkCommand } from './check.ts'
import { explainCommand } from './explain.ts'
import { gatewayCommand } from './gateway.ts'
import { planCommand } from './plan.ts'
import { rlsCommand } from './rls.ts'
import { rlsCheckCommand } from './rls-check.ts'
import { type Command, exitCodes, type Terminal, UsageError } from './terminal.ts'
import { version } from './version.ts'

const commands: readonly Command[] = [
  gatewayCommand,
  checkCommand,
  explainCommand,
  rlsCommand,
  rlsCheckCommand,
  planCommand,
]

export async function runCli(args: readonly string[], terminal: Terminal): Promise<number> {
  const [name = 'help', ...rest] = args
  if (['help', '-h', '--help'].includes(name)) return showHelp(rest[0], terminal)
  if (['version', '-v', '--version'].includes(name)) {
    terminal.print(`tidegate ${version()}\n`)
    return exitCodes.ok
  }
  const command = commands.find((known) => known.name === name)
  if (command === undefined) {
    terminal.complain(`tidegate: unknown command: ${name}\n\n${overview()}`)
    return exitCodes.usage
  }
  if (rest.includes('--help') || rest.includes('-h')) return showHelp(name, terminal)
  try {
    return await command.run(rest, terminal)
  } catch (error) {
    if (isUsage(error)) {
      const hint = `See: tidegate ${name} --help`
      terminal.complain(`tidegate ${name}: ${(error as Error).message}\n${hint}\n`)
      return exitCodes.usage
    }
    if (error instanceof SettingError) {
      terminal.complain(`tidegate ${name}: ${error.message}\n`)
      return exitCodes.failed
    }
    throw error
  }
}

function showHelp(name: string | undefined, terminal: Terminal): number {
  const command = commands.find((known) => known.name === name)
  terminal.print(command?.help ?? overview())
  return exitCodes.ok
}

function overview(): string {
  const lines = commands.map(({ name, summary }) => `  ${name.padEnd(12)}${summary}\n`)
  return `Usage: tidegate COMMAND [OPTIONS]

${lines.join('')}  version     Print the version
  help        This text; help COMMAND tells its options
`
}

/** Ours, or what util.parseArgs throws for options that it does not know. */
function isUsage(error: unknown): boolean {
  if (error instanceof UsageError) return true
  const { code } = error as NodeJS.ErrnoException
  return typeof code === 'string' && code.startsWith('ERR_PARSE_ARGS')
}
