/** Runs package.test.ts with the oldest supported Node. */

import './package.test.ts'
