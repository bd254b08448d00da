/** fast-check with the seed and the number of runs of test/support/suite.ts. */

import fc from 'fast-check'
import { seed, sizes } from './suite.ts'

fc.configureGlobal({ seed, numRuns: sizes.randomRuns })

export { fc }
