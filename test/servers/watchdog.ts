/**
 * Ends servers whose test process has ended. It runs as a process of its own, which outlives the
 * tests also when they are killed: its input then closes. Lines of input: `+pid folder` for a
 * server that was started and the folder of its data, `-pid` for one that was stopped.
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
    // It has ended by itself.
  }
  rmSync(folder, { recursive: true, force: true })
}
