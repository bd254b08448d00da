/** Beside the other faults, so that a report of all of them has its row. */

import './killed.test.ts'
