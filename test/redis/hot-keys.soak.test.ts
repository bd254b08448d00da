/** With more keys, commands that are counted, and processes that are killed. */

import './hot-keys.test.ts'
