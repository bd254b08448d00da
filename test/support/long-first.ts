/**
 * The order of test files: long ones start first, so that none of them is left alone at the end.
 * vitest itself knows durations only from an earlier run in the same checkout; without one, it goes
 * by the size of files, and most of the long tests wait.
 */

import { relative } from 'node:path'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import { repositoryRoot } from '../house/source-file.ts'

/** The longest first: files above 8 s of the quick suite, and above 40 s of the soak suite. */
export const longFiles: readonly string[] = [
  'test/e2e/gateway/http2-sessions.test.ts',
  'test/security/slow-clients.test.ts',
  'test/e2e/gateway/node-transport.test.ts',
  'test/idempotency/processes.test.ts',
  'test/security/silent-sockets.test.ts',
  'test/e2e/rls/lifecycle.test.ts',
  'test/e2e/rls/stores.test.ts',
  'test/e2e/cli/gateway-process.test.ts',
  'test/e2e/regions/regions.test.ts',
  'test/e2e/cli/demo.test.ts',
  'test/e2e/rls/transport.test.ts',
  'test/e2e/rls/exactness.test.ts',
  'test/e2e/rls/shed.test.ts',
  'packages/server/src/policy/policy-files.test.ts',
  'test/differential/protocol-cases.test.ts',
  'test/e2e/gateway/listener.test.ts',
  'test/e2e/gateway/vanishing-clients.test.ts',
  'test/e2e/console/console.test.ts',
  'test/e2e/control/canary.test.ts',
  'packages/server/src/limits/charging/open-slots.test.ts',
  'test/e2e/gateway/tls.test.ts',
  'packages/tidegate/src/stores/contract/equivalence.test.ts',
  'test/redis/sentinel-failover.test.ts',
  'test/e2e/gateway/drain.test.ts',
  'test/e2e/gateway/node-transport.soak.test.ts',
  'test/e2e/control/faults.soak.test.ts',
  'test/e2e/metrics/alerts.soak.test.ts',
  'test/differential/http1.soak.test.ts',
  'test/security/node-transport.soak.test.ts',
  'test/differential/http2.soak.test.ts',
  'test/e2e/regions/regions.soak.test.ts',
  'test/simulation/regions.soak.test.ts',
  'test/e2e/gateway/vanishing-clients.soak.test.ts',
  'packages/server/src/policy/api-keys/key-file.soak.test.ts',
  'test/e2e/control/admin-fleet.soak.test.ts',
  'test/redis/slots.soak.test.ts',
  'test/e2e/console/console.soak.test.ts',
  'test/idempotency/processes.soak.test.ts',
  'test/e2e/console/page-cost.soak.test.ts',
]

export class LongFirst extends BaseSequencer {
  /** Projects stay together: a process that several files share ends at a file of another one. */
  override async sort(specs: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(specs)
    const projects = Map.groupBy(sorted, ({ project }) => project)
    return [...projects.values()].flatMap((ofProject) =>
      ofProject.toSorted((one, other) => rank(one) - rank(other)),
    )
  }
}

function rank({ moduleId }: TestSpecification): number {
  const at = longFiles.indexOf(relative(repositoryRoot, moduleId))
  return at < 0 ? longFiles.length : at
}
