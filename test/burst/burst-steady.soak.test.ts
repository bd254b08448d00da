/** Runs burst-steady.test.ts for as long as an operator would watch. */

import './burst-steady.test.ts'
