/** More histories. */

import './leased-store.test.ts'
