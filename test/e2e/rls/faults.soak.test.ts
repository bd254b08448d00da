/** Runs faults.test.ts with all faults, and measures latencies. */

import './faults.test.ts'
