/**
 * Who may import whom in the library. The picture is in ARCHITECTURE.md; this is the rule.
 *
 * A layer is a folder of `packages/tidegate/src`, or some of the files that lie directly in it.
 * Tests and contract suites stand outside and may import everything.
 */

import { isTestFile, librarySource } from './places.ts'
import type { SourceFile } from './source-file.ts'

const filesOfLayer: Readonly<Record<string, string>> = {
  'clock.ts': 'clock',
  'decision.ts': 'decision',
  'errors.ts': 'errors',
  'index.ts': 'index',
  'keys.ts': 'limiter',
  'kill-switch.ts': 'limiter',
  'limiter.ts': 'limiter',
  'observer.ts': 'observer',
  'reservation.ts': 'limiter',
  'store-limiter.ts': 'limiter',
  'testing.ts': 'testing',
  'wait-queue.ts': 'limiter',
}

/** `X types` allows `import type` only; a path allows that file of a layer only. */
const allowedImports: Readonly<Record<string, readonly string[]>> = {
  clock: [],
  decision: [],
  errors: [],
  observer: ['decision types', 'errors types'],
  algorithms: ['decision'],
  policy: ['decision', 'errors', 'algorithms'],
  stores: ['algorithms', 'decision', 'clock', 'errors', 'observer', 'policy/options.ts'],
  limiter: ['policy', 'stores', 'algorithms types', 'clock', 'decision', 'errors', 'observer'],
  http: ['limiter', 'decision', 'errors', 'policy', 'algorithms types', 'clock'],
  middleware: ['http', 'limiter types', 'decision types'],
  index: [
    ...['algorithms', 'clock', 'decision', 'errors', 'observer', 'policy', 'stores', 'limiter'],
    'http',
  ],
  testing: ['clock', 'stores', 'http'],
}

/** Layers whose files may not import one another: every middleware stands alone. */
const layersOfLoners = ['middleware']

export function wrongImports({ path, syntax }: SourceFile): { line: number; text: string }[] {
  if (syntax === undefined || !path.startsWith(librarySource) || isTestFile(path)) return []
  const layer = layerOf(path)
  const allowed = allowedImports[layer]
  if (allowed === undefined) {
    return [{ line: 1, text: 'belongs to no layer; give it one in test/layers.ts' }]
  }
  return syntax.imports.flatMap(({ target, isTypeOnly, line }) => {
    if (target === undefined || isAllowed(layer, allowed, target, isTypeOnly)) return []
    const rule = allowed.length === 0 ? 'nothing' : allowed.join(', ')
    return [{ line, text: `imports ${layerOf(target)}, but ${layer} may import ${rule}` }]
  })
}

function isAllowed(
  layer: string,
  allowed: readonly string[],
  target: string,
  isTypeOnly: boolean,
): boolean {
  const other = layerOf(target)
  if (other === layer) return !layersOfLoners.includes(layer)
  if (allowed.includes(other) || allowed.includes(target.slice(librarySource.length))) return true
  return isTypeOnly && allowed.includes(`${other} types`)
}

function layerOf(path: string): string {
  const inside = path.slice(librarySource.length)
  const folder = inside.split('/')[0] ?? inside
  return filesOfLayer[folder] ?? folder
}
