/** More seeds of the simulations. */

import './regions.test.ts'
