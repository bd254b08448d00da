/** Bundles programs on the library as its users would, from its sources. */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { build, type Plugin } from 'vite'
import { librarySource } from './places.ts'
import { repositoryRoot } from './source-file.ts'

export interface Bundled {
  /** A script that assigns the exports of the program to the variable `bundled`. */
  readonly script: string
  /** The files of the library that are part of it, as paths in its sources. */
  readonly files: readonly string[]
  /** Static imports that are not part of it, such as `node:net`. */
  readonly imports: readonly string[]
}

const PROGRAM = 'program-to-bundle'

const source = join(repositoryRoot, librarySource)

/** The named packages become part of the bundle; other imports are left as they are. */
export async function bundle(program: string, packages: readonly string[] = []): Promise<Bundled> {
  const imports = new Set<string>()
  const output = await build({
    configFile: false,
    root: repositoryRoot,
    logLevel: 'silent',
    plugins: [programPlugin(program, packages, imports)],
    build: {
      write: false,
      minify: true,
      target: 'es2024',
      lib: { entry: PROGRAM, formats: ['iife'], name: 'bundled' },
    },
  })
  const [result] = [output].flat()
  const chunk = result !== undefined && 'output' in result ? result.output[0] : undefined
  if (chunk === undefined) throw new Error('nothing was bundled')
  const isOfLibrary = (path: string) => path.startsWith(source)
  const files = Object.entries(chunk.modules).flatMap(([path, { renderedLength }]) =>
    isOfLibrary(path) && renderedLength > 0 ? [path.slice(source.length)] : [],
  )
  return { script: chunk.code, files: files.sort(), imports: [...imports].sort() }
}

function programPlugin(program: string, packages: readonly string[], imports: Set<string>): Plugin {
  const sources = sourcesByEntry()
  return {
    name: 'tidegate:program',
    enforce: 'pre',
    resolveId(id, _importer, { kind }) {
      if (id.endsWith(PROGRAM)) return PROGRAM
      const entry = sources[id]
      if (entry !== undefined) return entry
      if (id.startsWith('.') || id.startsWith('/') || packages.includes(id)) return undefined
      if (kind !== 'dynamic-import') imports.add(id)
      return { id, external: true }
    },
    load: (id) => (id === PROGRAM ? program : undefined),
  }
}

function sourcesByEntry(): Readonly<Record<string, string>> {
  const manifest = JSON.parse(
    readFileSync(join(repositoryRoot, 'packages/tidegate/package.json'), 'utf8'),
  ) as { exports: Record<string, string | { default: string }> }
  return Object.fromEntries(
    Object.entries(manifest.exports).flatMap(([entry, target]) => {
      if (typeof target === 'string') return []
      const path = target.default.replace('./dist/', source).replace(/\.js$/, '.ts')
      return [[entry.replace('.', 'tidegate'), path]]
    }),
  )
}
