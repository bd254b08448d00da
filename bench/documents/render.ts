/** Writes the documents from docs/benchmarks.json again, after a change of their layout. */

import { join } from 'node:path'
import { publish } from './publish.ts'

console.log(publish(join(import.meta.dirname, '../..'), []))
