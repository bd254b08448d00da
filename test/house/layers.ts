/**
 * Which layer of a package may import which. The picture is in ARCHITECTURE.md; this is the rule.
 *
 * A layer is a folder of a package's `src`, or a group of files directly in it. Tests and contract
 * suites may import everything.
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
  'metrics.ts': 'metrics',
  'observer.ts': 'observer',
  'options.ts': 'options',
  'runtime.ts': 'runtime',
  'testing.ts': 'testing',
}

const allowedInLibrary: Readonly<Record<string, readonly string[]>> = {
  clock: [],
  decision: [],
  errors: [],
  options: ['errors'],
  runtime: ['clock'],
  observer: ['decision types', 'errors types'],
  algorithms: ['decision'],
  limits: ['decision', 'errors', 'options', 'algorithms'],
  stores: ['algorithms', 'decision', 'clock', 'errors', 'observer', 'runtime', 'options'],
  limiter: [
    ...['limits', 'options', 'stores', 'algorithms types', 'clock', 'decision', 'errors'],
    ...['observer', 'runtime'],
  ],
  http: [
    ...['limiter', 'decision', 'errors', 'limits', 'options', 'algorithms types', 'clock'],
    'runtime',
  ],
  middleware: ['http', 'limiter types', 'decision types'],
  index: [
    ...['algorithms', 'clock', 'decision', 'errors', 'observer', 'limits', 'stores', 'limiter'],
    'http',
  ],
  testing: ['clock', 'stores', 'http'],
  metrics: [
    ...['clock', 'decision types', 'errors types', 'observer', 'stores types', 'limiter types'],
  ],
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
  files: { 'main.ts': 'main' },
  allowed: {
    config: [],
    limits: [],
    policy: ['limits', 'config'],
    stores: ['policy', 'config'],
    observability: ['config/mask-secrets.ts', 'limits types'],
    overload: ['limits/priority.ts', 'observability types'],
    'http-api': ['config/alternative-names.ts'],
    gateway: ['policy', 'limits', 'overload', 'observability', 'config'],
    'decision-api': ['policy', 'limits', 'overload', 'http-api'],
    rls: ['limits', 'policy', 'stores', 'overload', 'http-api', 'observability', 'config'],
    control: ['config', 'limits', 'policy'],
    admin: ['http-api', 'control', 'limits', 'policy', 'config', 'observability types'],
    app: [
      ...['config', 'policy', 'limits', 'stores', 'overload', 'gateway', 'rls', 'decision-api'],
      ...['admin', 'http-api', 'observability', 'control'],
    ],
    capacity: [],
    cli: [
      ...['app', 'config', 'capacity', 'observability', 'control', 'rls/settings.ts'],
      ...['rls/config/check-config.ts', 'limits/duration-text.ts', 'limits types', 'policy types'],
      'control/plain-text.ts',
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
    return [{ line: 1, text: 'belongs to no layer; give it one in test/house/layers.ts' }]
  }
  return syntax.imports.flatMap(({ target, isTypeOnly, line }) => {
    if (target === undefined || isAllowed(layers, path, target, isTypeOnly)) return []
    const rule = allowed.length === 0 ? 'nothing' : allowed.join(', ')
    return [{ line, text: `imports ${layerOf(layers, target)}, but ${layer} may import ${rule}` }]
  })
}

function isAllowed(layers: Layers, path: string, target: string, isTypeOnly: boolean): boolean {
  // A package uses the exports of another package, never a path into it.
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
