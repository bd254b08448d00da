/** Watches whether the machine stands still while tests run. */

import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { STALLS_FILE } from './stalls-file.ts'

/** Called for each project; one watch is enough. */
export function setup(): (() => void) | undefined {
  if (process.env[STALLS_FILE] !== undefined) return undefined
  const folder = mkdtempSync(join(tmpdir(), 'tidegate-stalls-'))
  const file = join(folder, 'stalls')
  writeFileSync(file, '')
  process.env[STALLS_FILE] = file
  const watch = join(import.meta.dirname, 'watch.ts')
  const flags = ['--disable-warning=ExperimentalWarning']
  const stdio = ['pipe', 'ignore', 'inherit'] as const
  const child = spawn(process.execPath, [...flags, watch, file], { stdio: [...stdio] })
  return () => {
    child.kill()
    rmSync(folder, { recursive: true, force: true })
  }
}
