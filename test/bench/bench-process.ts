/** The benchmark's runner as a process, on parts that a test has written. Started by `runBench`. */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { main } from '../../bench/harness/main.ts'

export interface BenchRan {
  readonly status: number | null
  readonly stdout: string
  readonly stderr: string
}

export interface BenchPlace {
  readonly root: string
  /** Writes a part whose `run` has that body, in which the run is `run`. */
  part(name: string, body: string): void
  remove(): void
}

export function makeBenchPlace(): BenchPlace {
  const root = mkdtempSync(join(tmpdir(), 'tidegate-bench-'))
  mkdirSync(join(root, 'bench'))
  const readme = '# It\n\n<!-- bench:begin -->\n<!-- bench:end -->\n\nThe end.\n'
  writeFileSync(join(root, 'README.md'), readme)
  return {
    root,
    part(name, body) {
      const head = `name: '${name}', title: 'Title of ${name}', compares: 'This and that.'`
      const text = `export const part = { ${head}, async run(run) { ${body} } }\n`
      writeFileSync(join(root, 'bench', `${name}.ts`), text)
    },
    remove: () => rmSync(root, { recursive: true, force: true }),
  }
}

/** `interruptAt` is a text: when it is printed, the process gets Ctrl+C. */
export async function runBench(
  { root }: BenchPlace,
  args: readonly string[],
  interruptAt?: string,
): Promise<BenchRan> {
  const child = spawn(process.execPath, [import.meta.filename, root, ...args])
  let [stdout, stderr] = ['', '']
  let isInterrupted = false
  child.stdout.on('data', (chunk) => {
    stdout += chunk
    if (interruptAt === undefined || isInterrupted || !stdout.includes(interruptAt)) return
    isInterrupted = true
    child.kill('SIGINT')
  })
  child.stderr.on('data', (chunk) => {
    stderr += chunk
  })
  const [status] = (await once(child, 'close')) as [number | null]
  return { status, stdout, stderr }
}

if (process.argv[1] === import.meta.filename) {
  const [root = '', ...args] = process.argv.slice(2)
  process.exit(await main(args, { parts: join(root, 'bench'), root }))
}
