/**
 * A process that has nothing to do, and notes in the file of its argument when it was not run for
 * long: the machine stood still. It ends with the process that has started it.
 */

import { appendFileSync } from 'node:fs'
import { STALL_MS_MIN } from './stalls-file.ts'

const TICK_MS = 50

const [, , file = ''] = process.argv

let lastMs = Date.now()

setInterval(() => {
  const nowMs = Date.now()
  if (nowMs - lastMs > STALL_MS_MIN) appendFileSync(file, `${lastMs} ${nowMs}\n`)
  lastMs = nowMs
}, TICK_MS)

process.stdin.resume().on('end', () => process.exit())
