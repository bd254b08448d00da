/** Every route of the admin API with its role. There is no other way into the API. */

import type { Route } from './route.ts'
import { accessRoutes } from './routes/access-routes.ts'
import { auditRoutes } from './routes/audit-routes.ts'
import { canaryRoutes } from './routes/canary-routes.ts'
import { consoleRoutes } from './routes/console-routes.ts'
import { counterRoutes } from './routes/counter-routes.ts'
import { entryRoutes } from './routes/entry-routes.ts'
import { keyRoutes } from './routes/key-routes.ts'
import { policyRoutes } from './routes/policy-routes.ts'
import { regionRoutes } from './routes/region-routes.ts'
import { statusRoutes } from './routes/status-routes.ts'
import { topRoutes } from './routes/top-routes.ts'

export const routeTable: readonly Route[] = [
  ...statusRoutes,
  ...policyRoutes,
  ...canaryRoutes,
  ...counterRoutes,
  ...keyRoutes,
  ...topRoutes,
  ...entryRoutes,
  ...regionRoutes,
  ...auditRoutes,
  ...accessRoutes,
  ...consoleRoutes,
]
