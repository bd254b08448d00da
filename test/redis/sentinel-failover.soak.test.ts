/** Runs sentinel-failover.test.ts with hanging masters and Sentinels too. */

import './sentinel-failover.test.ts'
