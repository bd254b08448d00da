/**
 * Which layer of a package may import which. The picture is in ARCHITECTURE.md; this is the rule.
 *
 * A layer is a folder of a package's `src`, or a group of files directly in it. Tests and contract
 * suites may import everything.
 */

import { consoleSource, isTestFile, librarySource, serverSource } from './places.ts'
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
  'idempotency.ts': 'idempotency',
  'index.ts': 'index',
  'metrics.ts': 'metrics',
  'observer.ts': 'observer',
  'opentelemetry.ts': 'opentelemetry',
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
  idempotency: ['clock', 'errors', 'observer', 'options', 'runtime', 'limits', 'stores', 'http'],
  middleware: ['http', 'idempotency', 'limiter types', 'decision types'],
  index: [
    ...['algorithms', 'clock', 'decision', 'errors', 'observer', 'limits', 'stores', 'limiter'],
    'http',
  ],
  testing: ['clock', 'stores', 'http', 'idempotency'],
  metrics: [
    ...['clock', 'decision types', 'errors types', 'observer', 'stores types', 'limiter types'],
  ],
  opentelemetry: ['clock', 'decision types', 'observer types', 'stores types', 'limiter types'],
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
    regions: ['policy', 'limits', 'config', 'http-api/bearer-token.ts'],
    overload: ['limits/priority.ts', 'observability types'],
    'http-api': ['config/alternative-names.ts', 'observability/request-id.ts'],
    gateway: ['policy', 'limits', 'overload', 'observability', 'config'],
    'decision-api': ['policy', 'limits', 'overload', 'http-api', 'observability'],
    rls: ['limits', 'policy', 'stores', 'overload', 'http-api', 'observability', 'config'],
    control: ['config', 'limits', 'policy'],
    admin: [
      ...['http-api', 'control', 'limits', 'policy', 'config', 'observability types'],
      'observability/top/top-lists.ts',
    ],
    app: [
      ...['config', 'policy', 'limits', 'stores', 'overload', 'gateway', 'rls', 'decision-api'],
      ...['admin', 'http-api', 'observability', 'control', 'regions'],
    ],
    capacity: [],
    probe: ['http-api', 'observability'],
    cli: [
      ...['app', 'config', 'capacity', 'observability', 'control', 'rls/settings.ts'],
      ...['rls/config/check-config.ts', 'limits/duration-text.ts', 'limits types', 'policy types'],
      'policy/regions/region-bounds.ts',
      ...['control/plain-text.ts', 'probe', 'http-api/handed-connections.ts'],
    ],
    main: ['cli'],
  },
  loners: [],
}

/** The page is compiled with the types of the admin API, and with nothing else of the server. */
const typesOfConsole = [
  `${serverSource}admin/console/console-types.ts`,
  `${serverSource}admin/console/region-types.ts`,
  'packages/server/tidegate.schema.json',
]

function wrongImportsOfConsole({ syntax }: SourceFile): { line: number; text: string }[] {
  return (syntax?.imports ?? []).flatMap(({ target, isTypeOnly, line }) => {
    if (target === undefined || target.startsWith(consoleSource)) return []
    if (typesOfConsole.includes(target) && (isTypeOnly || target.endsWith('.json'))) return []
    return [{ line, text: `imports ${target}, but the console may import types of the admin API` }]
  })
}

export function wrongImports(file: SourceFile): { line: number; text: string }[] {
  const { path, syntax } = file
  if (path.startsWith(consoleSource)) return wrongImportsOfConsole(file)
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
