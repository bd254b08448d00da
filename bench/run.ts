/** `./run.sh bench`: runs the benchmarks beside this file. `--help` says how. */

import { join } from 'node:path'
import { main } from './harness/main.ts'

process.exit(
  await main(process.argv.slice(2), {
    parts: import.meta.dirname,
    root: join(import.meta.dirname, '..'),
  }),
)
