/** Runs processes.test.ts with a thousand rounds. */

import './processes.test.ts'
