/**
 * Kills servers whose test process has ended. It is a separate process that outlives the tests,
 * also killed ones: its input closes then. Lines of input: `+pid folder` for a started server and
 * its data folder, `-pid` for a stopped one.
 */

import { rmSync } from 'node:fs'
import { createInterface } from 'node:readline'

const folders = new Map<number, string>()

for await (const line of createInterface({ input: process.stdin })) {
  const [, sign, pid, folder = ''] = /^([+-])(\d+) ?(.*)$/.exec(line) ?? []
  if (sign === '+') folders.set(Number(pid), folder)
  else folders.delete(Number(pid))
}

for (const [pid, folder] of folders) {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // The process has already ended.
  }
  rmSync(folder, { recursive: true, force: true })
}
