/** fast-check with the seed of the run. Histories that it makes up are those of test/suite.ts. */

import fc from 'fast-check'
import { seed, sizes } from './suite.ts'

fc.configureGlobal({ seed, numRuns: sizes.randomRuns })

export { fc }
