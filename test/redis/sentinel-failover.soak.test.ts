/** With masters and Sentinels that hang, too. */

import './sentinel-failover.test.ts'
