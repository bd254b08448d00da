/** More histories, from a random seed. */

import './leased-store.test.ts'
