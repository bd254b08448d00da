/** Runs processes.test.ts with more rounds. */

import './processes.test.ts'
