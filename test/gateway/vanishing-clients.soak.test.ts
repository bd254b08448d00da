/** For longer, from a random seed. */

import './vanishing-clients.test.ts'
