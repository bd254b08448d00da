/** With a million keys. */

import './footprint.test.ts'
