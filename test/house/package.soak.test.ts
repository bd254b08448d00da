/** Runs package.test.ts on the oldest supported Node too. */

import './package.test.ts'
