/** All histories. */

import './equivalence.test.ts'
