/** Makes the documents anew from docs/benchmarks.json, where only their layout has changed. */

import { join } from 'node:path'
import { publish } from './publish.ts'

console.log(publish(join(import.meta.dirname, '../..'), []))
