import { defineConfig } from 'vitest/config'
import { CountReporter } from './test/reporter.ts'

export default defineConfig({
  plugins: [
    {
      // Added here and not under `reporters`, which `--reporter` on the command line replaces.
      name: 'tidegate:count',
      configureVitest: ({ vitest }) => void vitest.config.reporters.push(new CountReporter()),
    },
  ],
  test: {
    include: ['packages/*/src/**/*.test.ts', 'test/**/*.test.ts', 'docs/**/*.test.ts'],
    testTimeout: 30_000,
  },
})
