/** Runs vanishing-clients.test.ts for longer. */

import './vanishing-clients.test.ts'
