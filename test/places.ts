/** Where things are in the repository, for the rules of the tidy test. */

export const librarySource = 'packages/tidegate/src/'

/** Tests and contract suites, which may use a test runner. */
export function isTestFile(path: string): boolean {
  return /(\.test|-contract)\.ts$/.test(path) || path.startsWith('test/')
}

/** What runs in the user's process. */
export function isLibraryFile(path: string): boolean {
  const isSource = path.startsWith(librarySource) && path.endsWith('.ts')
  return isSource && !isTestFile(path) && path !== `${librarySource}testing.ts`
}
