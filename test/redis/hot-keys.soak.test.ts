/** Runs hot-keys.test.ts with more keys, counted commands, and killed processes. */

import './hot-keys.test.ts'
