/** With more rounds. */

import './processes.test.ts'
