/** With a million keys. */

import './memory.test.ts'
