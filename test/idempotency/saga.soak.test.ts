/** Runs saga.test.ts with a death in every step. */

import './saga.test.ts'
