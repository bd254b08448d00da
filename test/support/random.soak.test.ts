/** Runs the properties of pure functions more often. */

import '../../packages/server/src/config/yaml/yaml-text.test.ts'
import '../../packages/server/src/limits/key-plan.test.ts'
import '../../packages/tidegate/src/algorithms/fixed-window.test.ts'
import '../../packages/tidegate/src/algorithms/holds.test.ts'
import '../../packages/tidegate/src/algorithms/sliding-log.test.ts'
import '../../packages/tidegate/src/algorithms/sliding-window.test.ts'
import '../../packages/tidegate/src/algorithms/token-bucket.test.ts'
import '../../packages/tidegate/src/http/ip-address.test.ts'
import '../../packages/tidegate/src/stores/guarded/local/share.test.ts'
import '../../packages/tidegate/src/stores/redis/redis-key.test.ts'
