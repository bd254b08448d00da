/** The command line of the benchmarks. */

import { parseArgs } from 'node:util'

export interface Options {
  /** Names of the parts to run; none means all. */
  readonly names: readonly string[]
  readonly isQuick: boolean
  /** Whether missing programs of peers are installed. */
  readonly installsPeers: boolean
  readonly isPublish: boolean
  readonly isList: boolean
  readonly isHelp: boolean
}

export const usage = `Usage: ./run.sh bench [NAME...] [--quick] [--peers] [--publish]

Runs the benchmarks of those names, or all of them. What they find is shown, and
written to .cache/bench.

  --quick    The same comparisons, shorter: to see that everything works
  --peers    Install programs of peers that are missing into .tools first
  --publish  Write docs/benchmarks.json, docs/benchmarks.md, the charts and the
             table in README.md. Parts that did not run stay as they are
  --list     The names and titles
  --help     This text`

/** Returns a message for wrong arguments instead of throwing, because a person typed them. */
export function optionsFrom(args: readonly string[]): Options | { readonly wrong: string } {
  try {
    const flag = { type: 'boolean', default: false } as const
    const { values, positionals } = parseArgs({
      args: [...args],
      options: {
        quick: flag,
        peers: flag,
        publish: flag,
        list: flag,
        help: { ...flag, short: 'h' },
      },
      allowPositionals: true,
    })
    if (values.quick && values.publish) {
      return { wrong: 'a quick run is too short to be published; leave out --quick' }
    }
    return {
      names: positionals,
      isQuick: values.quick,
      installsPeers: values.peers,
      isPublish: values.publish,
      isList: values.list,
      isHelp: values.help,
    }
  } catch (error) {
    return { wrong: error instanceof Error ? error.message : String(error) }
  }
}
