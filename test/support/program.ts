/** The program `tidegate`, to be started as a process of its own. */

import { join } from 'node:path'
import { repositoryRoot } from '../house/source-file.ts'

/** Set by `build-program.ts`, and inherited by the processes of the tests. */
export const PROGRAM_VARIABLE = 'TIDEGATE_TEST_PROGRAM'

/** The file to run with Node: the bundle of this run, or the sources outside of a run. */
export const programFile: string =
  process.env[PROGRAM_VARIABLE] ?? join(repositoryRoot, 'packages/server/src/main.ts')
