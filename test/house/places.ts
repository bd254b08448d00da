/** Paths of the repository, for the rules of the tidy test. */

export const librarySource = 'packages/tidegate/src/'

export const serverSource = 'packages/server/src/'

export const consoleSource = 'packages/console/src/'

/** True for tests, contract suites, which may use a test runner, and generators. */
export function isTestFile(path: string): boolean {
  const isBeside = /(\.test|-contract)\.ts$|\/generate-[a-z-]+\.ts$/.test(path)
  return isBeside || path.startsWith('test/')
}

/** True for code that runs in the user's process. */
export function isLibraryFile(path: string): boolean {
  const isSource = path.startsWith(librarySource) && path.endsWith('.ts')
  return isSource && !isTestFile(path) && path !== `${librarySource}testing.ts`
}
