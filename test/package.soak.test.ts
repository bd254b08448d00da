/** On the oldest Node that is supported too. */

import './package.test.ts'
