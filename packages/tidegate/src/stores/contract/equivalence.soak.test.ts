/** All histories, from a random seed. */

import './equivalence.test.ts'
