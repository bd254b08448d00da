/**
 * Who may import whom in the packages. The picture is in ARCHITECTURE.md; this is the rule.
 *
 * A layer is a folder of a package's `src`, or some of the files that lie directly in it. Tests and
 * contract suites stand outside and may import everything.
 */

import { isTestFile, librarySource, serverSource } from './places.ts'
import type { SourceFile } from './source-file.ts'

interface Layers {
  readonly source: string
  /** The layers of files that lie directly in the source folder. */
  readonly files: Readonly<Record<string, string>>
  /** `X types` allows `import type` only; a path allows that file of a layer only. */
  readonly allowed: Readonly<Record<string, readonly string[]>>
  /** Layers whose files may not import one another. */
  readonly loners: readonly string[]
}

const filesOfLibrary: Readonly<Record<string, string>> = {
  'clock.ts': 'clock',
  'decision.ts': 'decision',
  'errors.ts': 'errors',
  'http.ts': 'http',
  'index.ts': 'index',
  'keys.ts': 'limiter',
  'kill-switch.ts': 'limiter',
  'limit-registry.ts': 'limiter',
  'limiter.ts': 'limiter',
  'observer.ts': 'observer',
  'reservation.ts': 'limiter',
  'store-limiter.ts': 'limiter',
  'testing.ts': 'testing',
  'wait-queue.ts': 'limiter',
}

const allowedInLibrary: Readonly<Record<string, readonly string[]>> = {
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

const library: Layers = {
  source: librarySource,
  files: filesOfLibrary,
  allowed: allowedInLibrary,
  // Every middleware stands alone.
  loners: ['middleware'],
}

const server: Layers = {
  source: serverSource,
  files: {
    'admin-listener.ts': 'admin',
    'compose.ts': 'compose',
    'environment.ts': 'environment',
    'http-door.ts': 'http-door',
    'main.ts': 'main',
  },
  allowed: {
    policy: [],
    stores: ['policy'],
    overload: ['policy/priority.ts'],
    gateway: ['policy', 'overload'],
    'decision-api': ['policy', 'overload', 'http-door'],
    rls: ['policy', 'stores', 'overload', 'http-door'],
    admin: ['http-door'],
    'http-door': [],
    environment: [],
    compose: [
      ...['policy', 'stores', 'overload', 'gateway', 'decision-api', 'admin'],
      'http-door types',
    ],
    plan: [],
    cli: [
      ...['policy', 'stores', 'gateway', 'compose', 'environment', 'rls', 'plan'],
      'overload types',
    ],
    main: ['cli'],
  },
  loners: [],
}

export function wrongImports({ path, syntax }: SourceFile): { line: number; text: string }[] {
  const layers = [library, server].find(({ source }) => path.startsWith(source))
  if (syntax === undefined || layers === undefined || isTestFile(path)) return []
  const layer = layerOf(layers, path)
  const allowed = layers.allowed[layer]
  if (allowed === undefined) {
    return [{ line: 1, text: 'belongs to no layer; give it one in test/layers.ts' }]
  }
  return syntax.imports.flatMap(({ target, isTypeOnly, line }) => {
    if (target === undefined || isAllowed(layers, path, target, isTypeOnly)) return []
    const rule = allowed.length === 0 ? 'nothing' : allowed.join(', ')
    return [{ line, text: `imports ${layerOf(layers, target)}, but ${layer} may import ${rule}` }]
  })
}

function isAllowed(layers: Layers, path: string, target: string, isTypeOnly: boolean): boolean {
  // One package uses another by what that exports, never by a path into it.
  if (!target.startsWith(layers.source)) return false
  const layer = layerOf(layers, path)
  const other = layerOf(layers, target)
  if (other === layer) return !layers.loners.includes(layer)
  const allowed = layers.allowed[layer] ?? []
  if (allowed.includes(other) || allowed.includes(target.slice(layers.source.length))) return true
  return isTypeOnly && allowed.includes(`${other} types`)
}

function layerOf({ source, files }: Layers, path: string): string {
  const inside = path.slice(source.length)
  const folder = inside.split('/')[0] ?? inside
  return files[folder] ?? folder
}
