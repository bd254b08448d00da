/** Runs killed.test.ts with the other faults, so that a full report has its row. */

import './killed.test.ts'
