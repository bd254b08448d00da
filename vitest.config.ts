import { defineConfig } from 'vitest/config'
import { CountReporter } from './test/support/reporter.ts'
import { isSoak } from './test/support/suite.ts'

/** What happens when something takes too long: one at a time, so that nothing else does. */
const undisturbed = [
  'packages/tidegate/src/stores/deadlines*.test.ts',
  'packages/tidegate/src/stores/guarded/guarded-*.test.ts',
  'test/{burst,overload,reliability,support/faults}/**/*.test.ts',
  'test/redis/!(permissions|recipes).test.ts',
  'test/e2e/rls/faults*.test.ts',
  'test/e2e/control/{fleet,hostile}.soak.test.ts',
]

const all = ['packages/*/src/**/*.test.ts', 'test/**/*.test.ts']

/** The rule of test/support/suite.ts. */
const ofOtherSuite = isSoak ? '**/!(*.soak).test.ts' : '**/*.soak.test.ts'

export default defineConfig({
  plugins: [
    {
      // Added here and not under `reporters`, which `--reporter` on the command line replaces.
      name: 'tidegate:count',
      configureVitest: ({ vitest }) => {
        const { reporters } = vitest.config
        if (!reporters.some((one) => one instanceof CountReporter)) {
          reporters.push(new CountReporter())
        }
      },
    },
  ],
  test: {
    // Longer than `until` waits, so that what was waited for is said.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    setupFiles: ['./test/support/quiet-warnings.ts'],
    projects: [
      {
        extends: true,
        test: {
          name: 'together',
          include: all,
          exclude: ['**/node_modules/**', ofOtherSuite, ...undisturbed],
          // Two more than cores: most of them wait for servers or for time to pass.
          maxWorkers: 4,
          sequence: { groupOrder: 1 },
        },
      },
      {
        extends: true,
        test: {
          name: 'undisturbed',
          include: undisturbed,
          exclude: ['**/node_modules/**', ofOtherSuite],
          maxWorkers: 1,
          sequence: { groupOrder: 2 },
        },
      },
    ],
  },
})
