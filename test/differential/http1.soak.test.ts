/** Runs http1.test.ts for minutes, and with nginx. */

import './http1.test.ts'
