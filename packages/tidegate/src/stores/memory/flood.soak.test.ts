/** With two million keys. */

import './flood.test.ts'
