/** All faults, and how soon answers come. */

import './faults.test.ts'
