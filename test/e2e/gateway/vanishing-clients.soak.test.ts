/** Runs vanishing-clients.test.ts for longer, from a random seed. */

import './vanishing-clients.test.ts'
