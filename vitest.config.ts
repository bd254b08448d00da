import { defineConfig } from 'vitest/config'
import { LongFirst } from './test/support/long-first.ts'
import { CountReporter } from './test/support/reporter.ts'
import { isSoak } from './test/support/suite.ts'

/** Long tests of loads and faults that use the whole machine or report times: one at a time. */
const alone = [
  'test/{burst,overload,reliability}/**/*.soak.test.ts',
  'test/e2e/rls/faults.soak.test.ts',
  'test/e2e/control/{fleet,hostile}.soak.test.ts',
]

/**
 * What happens when something takes too long: two at a time, so that little else does. They wait
 * for most of their time.
 */
const undisturbed = [
  'packages/tidegate/src/stores/deadlines*.test.ts',
  'packages/tidegate/src/stores/guarded/guarded-*.test.ts',
  'test/{burst,overload,reliability,support/faults}/**/!(*-report|page).test.ts',
  'test/redis/{distance,hot-keys,synced-keys,*.soak}.test.ts',
  'test/e2e/rls/faults.test.ts',
]

/**
 * Tests of functions alone. They start no server or worker, and leave the process as it was, which
 * test/support/leave-no-trace.ts checks. So they share processes and the modules that are loaded
 * there: most of them take less time than the start of a process.
 */
const pure = [
  'packages/tidegate/src/{algorithms,limits}/!(sliding-log).test.ts',
  'packages/tidegate/src/http/!(guard-ip|reset-header).test.ts',
  'packages/tidegate/src/limiter/!(kill-switch|limit-registry).test.ts',
  'packages/server/src/{admin,capacity,decision-api,overload}/**/*.test.ts',
  'packages/server/src/config/yaml/*.test.ts',
  'packages/server/src/control/{*,audit/*,live/*,versions/*}.test.ts',
  'packages/server/src/gateway/{*,body/*,http1/*}.test.ts',
  'packages/server/src/limits/!(enforcer-redis).test.ts',
  'packages/server/src/limits/{live,match}/*.test.ts',
  'packages/server/src/policy/{read-policy,{problems,schema}/*}.test.ts',
  'packages/server/src/rls/{*,service/*,transport/**/*}.test.ts',
]

/**
 * Tests that start servers and clients in their own process, and stop them. They share processes,
 * too, because to load the server takes a second of the processor.
 */
const shared = [
  'packages/server/src/**/!(cli).test.ts',
  'packages/tidegate/src/{idempotency,metrics,opentelemetry}/**/*.test.ts',
  'packages/tidegate/src/middleware/!(*-hops).test.ts',
  'test/e2e/{control,rls,traces}/*.test.ts',
  // It imports other test files, which register no test in a process that has loaded them.
  'test/e2e/gateway/!(node-transport).test.ts',
  'test/security/!(matching-time).test.ts',
]

const all = ['packages/*/src/**/*.test.ts', 'test/**/*.test.ts']

/** The rule of test/support/suite.ts. */
const ofOtherSuite = isSoak ? '**/!(*.soak).test.ts' : '**/*.soak.test.ts'

/** Long tests measure their process, so each has one of its own. */
const notShared = ['**/node_modules/**', '**/*.soak.test.ts', ofOtherSuite]

/** Three for each of two cores: most of them wait for servers or for time to pass. */
const togetherMax = 6

export default defineConfig({
  plugins: [
    {
      // Added here and not under `reporters`, which `--reporter` on the command line replaces. It
      // is the first, so that its list of failures stands above their details.
      name: 'tidegate:count',
      configureVitest: ({ vitest }) => {
        const { reporters } = vitest.config
        if (!reporters.some((one) => one instanceof CountReporter)) {
          reporters.unshift(new CountReporter())
        }
      },
    },
  ],
  test: {
    // Longer than `until` waits, so that what was waited for is said. A long test takes a minute
    // and more on a machine that is not busy; the bound ends only those that hang.
    testTimeout: isSoak ? 600_000 : 120_000,
    hookTimeout: 120_000,
    setupFiles: ['./test/support/quiet-warnings.ts'],
    sequence: { sequencer: LongFirst },
    globalSetup: './test/support/build-program.ts',
    projects: [
      {
        extends: true,
        test: {
          name: 'pure',
          include: pure,
          exclude: notShared,
          isolate: false,
          setupFiles: ['./test/support/leave-no-trace.ts'],
          maxWorkers: togetherMax,
          sequence: { groupOrder: 1 },
        },
      },
      {
        extends: true,
        test: {
          name: 'shared',
          include: shared,
          exclude: [...notShared, ...undisturbed, ...pure],
          isolate: false,
          setupFiles: ['./test/support/leave-no-trace.ts'],
          maxWorkers: togetherMax,
          sequence: { groupOrder: 1 },
        },
      },
      {
        extends: true,
        test: {
          name: 'together',
          include: all,
          exclude: [
            ...['**/node_modules/**', ofOtherSuite, ...undisturbed, ...alone],
            ...(isSoak ? [] : [...pure, ...shared]),
          ],
          maxWorkers: togetherMax,
          sequence: { groupOrder: 1 },
        },
      },
      {
        extends: true,
        test: {
          name: 'undisturbed',
          include: undisturbed,
          exclude: ['**/node_modules/**', ofOtherSuite, ...alone],
          maxWorkers: 2,
          sequence: { groupOrder: 2 },
        },
      },
      {
        extends: true,
        test: {
          name: 'alone',
          include: alone,
          exclude: ['**/node_modules/**', ofOtherSuite],
          maxWorkers: 1,
          sequence: { groupOrder: 3 },
        },
      },
    ],
  },
})
