/** Every known defect of the protocols is found by the simulations. */

import { execFile } from 'node:child_process'
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, onTestFinished, test } from 'vitest'
import { repositoryRoot } from '../house/source-file.ts'
import { type Mutant, mutants } from './mutants.ts'

/** regions.soak.test.ts runs these seeds, and others, without a failure. */
const SEEDS = 1_000

const parts = [
  ...['packages/tidegate/src', 'packages/server/src', 'test/simulation'],
  'test/e2e/rls/random.ts',
]

describe('the simulations find', () => {
  test.for(mutants)('$name', async (mutant) => {
    const folder = mutatedCopy(mutant)
    onTestFinished(() => rmSync(folder, { recursive: true }))
    expect(await failureIn(folder, mutant)).toMatch(
      new RegExp(`^${mutant.simulation}, seed \\d+: [^]*\\nat [\\d.]+ ms: `),
    )
  })

  test('nothing in the copy without a change', async () => {
    const unchanged = { ...(mutants[0] as Mutant), changes: [] }
    const folder = mutatedCopy(unchanged)
    onTestFinished(() => rmSync(folder, { recursive: true }))
    expect(await failureIn(folder, unchanged, 20)).toBe('')
  })
})

async function failureIn(
  folder: string,
  { simulation, firstSeed = 1 }: Mutant,
  seeds = SEEDS,
): Promise<string> {
  const program = join(folder, 'test/simulation/run-seeds.ts')
  const run = promisify(execFile)(process.execPath, [
    program,
    simulation,
    String(firstSeed),
    String(seeds),
  ])
  return (await run).stdout
}

function mutatedCopy({ file, changes }: Mutant): string {
  const folder = mkdtempSync(join(tmpdir(), 'tidegate-mutant-'))
  mkdirSync(join(folder, 'test/e2e/rls'), { recursive: true })
  for (const part of parts) {
    cpSync(join(repositoryRoot, part), join(folder, part), { recursive: true })
  }
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }')
  // The server imports the library by its name, unchanged.
  symlinkSync(join(repositoryRoot, 'node_modules'), join(folder, 'node_modules'))
  const path = join(folder, file)
  let text = readFileSync(path, 'utf8')
  for (const [from, to] of changes) {
    expect(text.split(from), `${file} has this once: ${from}`).toHaveLength(2)
    text = text.replace(from, () => to)
  }
  writeFileSync(path, text)
  return folder
}
