/** Finds the command of a command line, runs it, and prints its help and its errors. */

import { SettingError } from '../app/environment.ts'
import { maskSecrets } from '../config/mask-secrets.ts'
import { type Command, exitCodes, type Terminal, UsageError } from './terminal.ts'
import { version } from './version.ts'

/** Each is loaded when it is called: to load them all takes longer than most of them run. */
const commands: ReadonlyMap<string, () => Promise<Command>> = new Map([
  ['gateway', async () => (await import('./policy-commands.ts')).gatewayCommand],
  ['serve', async () => (await import('./policy-commands.ts')).serveCommand],
  ['check', async () => (await import('./check.ts')).checkCommand],
  ['explain', async () => (await import('./explain/explain.ts')).explainCommand],
  ['rls', async () => (await import('./rls.ts')).rlsCommand],
  ['rls-check', async () => (await import('./rls-check.ts')).rlsCheckCommand],
  ['plan', async () => (await import('./plan.ts')).planCommand],
  ['probe', async () => (await import('./probe.ts')).probeCommand],
  ['policy', async () => (await import('./control/policy.ts')).policyCommand],
  ['override', async () => (await import('./control/override.ts')).overrideCommand],
  ['block', async () => (await import('./control/block.ts')).blockCommand],
  ['unblock', async () => (await import('./control/block.ts')).unblockCommand],
  ['switch', async () => (await import('./control/switch.ts')).switchCommand],
  ['counter', async () => (await import('./control/counter.ts')).counterCommand],
  ['token', async () => (await import('./control/token.ts')).tokenCommand],
  ['audit', async () => (await import('./control/audit.ts')).auditCommand],
  ['top', async () => (await import('./control/top.ts')).topCommand],
  ['regions', async () => (await import('./control/regions.ts')).regionsCommand],
])

export async function runCli(args: readonly string[], terminal: Terminal): Promise<number> {
  const [name = 'help', ...rest] = args
  if (['help', '-h', '--help'].includes(name)) return showHelp(rest[0], terminal)
  if (['version', '-v', '--version'].includes(name)) {
    terminal.stdout(`tidegate ${version()}\n`)
    return exitCodes.ok
  }
  const load = commands.get(name)
  if (load === undefined) {
    terminal.stderr(`tidegate: unknown command: ${name}\n\n${await overview()}`)
    return exitCodes.usage
  }
  if (rest.includes('--help') || rest.includes('-h')) return showHelp(name, terminal)
  try {
    const command = await load()
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

async function showHelp(name = '', terminal: Terminal): Promise<number> {
  const command = await commands.get(name)?.()
  terminal.stdout(command?.help ?? (await overview()))
  return exitCodes.ok
}

async function overview(): Promise<string> {
  const all = await Promise.all(Array.from(commands.values(), (load) => load()))
  const lines = all.map(({ name, summary }) => `  ${name.padEnd(12)}${summary}\n`)
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
