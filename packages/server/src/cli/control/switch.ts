/** `tidegate switch`: all limits on, in shadow mode or off, live. */

import { parseArgs } from 'node:util'
import { type Command, exitCodes, UsageError } from '../terminal.ts'
import {
  ADMIN_HELP,
  AdminClient,
  changeOptions,
  END_HELP,
  endOf,
  endOptions,
  noteOf,
  untilText,
  WHY_HELP,
  whyOf,
} from './admin-client.ts'

const options = {
  ...changeOptions,
  ...endOptions,
  blocks: { type: 'string', default: 'on' },
} as const

interface SwitchEntry {
  readonly limits: string
  readonly blocks: string
  readonly expires?: string | null
}

export const switchCommand: Command = {
  name: 'switch',
  summary: 'Turn all limits on, to shadow or off, live; switch show prints the state',
  help: `Usage: tidegate switch on|shadow|off --why TEXT [OPTIONS]
       tidegate switch show

shadow: all limits count and none refuses. off: requests are not counted; it needs the role admin.
Blocks stay, unless --blocks off. Without an end, the switch is on again after an hour.

  --blocks on|off     off lifts all blocks; it needs the role admin
${END_HELP}${WHY_HELP}${ADMIN_HELP}`,
  async run(args, terminal) {
    const { values, positionals } = parseArgs({ args: [...args], options, allowPositionals: true })
    const [limits, ...others] = positionals
    if (limits === undefined || others.length > 0) {
      throw new UsageError('allowed is: on, shadow, off or show')
    }
    if (limits === 'show') {
      const client = new AdminClient(values, terminal)
      const result = await client.call('GET', '/v1/switch')
      const entry = result.switch as SwitchEntry
      client.print(result, () => [`${stateText(entry)}, on ${noteOf(result)}`])
      return exitCodes.ok
    }
    const why = whyOf(values.why)
    const client = new AdminClient(values, terminal)
    const body = { limits, blocks: values.blocks, ...endOf(values), why }
    const result = await client.call('PUT', '/v1/switch', body)
    const entry = result.entry as SwitchEntry
    client.print(result, () => [`${stateText(entry)}, on ${noteOf(result)}`])
    return exitCodes.ok
  },
}

/** A switch that is on changes nothing, and so does its end. */
function stateText({ limits, blocks, expires }: SwitchEntry): string {
  const isOn = (limits === 'on' && blocks === 'on') || expires === undefined
  return `limits ${limits}, blocks ${blocks}${isOn ? '' : `, ${untilText(expires)}`}`
}
