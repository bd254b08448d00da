/**
 * Bundles the program `tidegate` once for a run of the tests. Tests start it about a hundred times,
 * and Node takes three times as long to start it from its sources. `program.ts` has its path.
 */

import { copyFileSync, mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { build } from 'vite'
import { repositoryRoot } from '../house/source-file.ts'
import { PROGRAM_VARIABLE } from './program.ts'

const server = join(repositoryRoot, 'packages/server')

/** The program, and the workers that it starts from files beside it. */
const input = {
  main: join(server, 'src/main.ts'),
  'parse-worker': join(server, 'src/policy/parse-worker.ts'),
  'decode-worker': join(server, 'src/rls/config/decode-worker.ts'),
}

/** Called by vitest before the first test; the returned function after the last one. */
export async function setup(): Promise<() => void> {
  const place = join(repositoryRoot, '.cache/program', String(process.pid))
  // As deep as the sources, because the program reads the version from the manifest of its package.
  const folder = join(place, 'dist/program')
  mkdirSync(folder, { recursive: true })
  copyFileSync(join(server, 'package.json'), join(place, 'package.json'))
  await build({
    configFile: false,
    logLevel: 'silent',
    ssr: { noExternal: true },
    build: {
      ssr: true,
      outDir: folder,
      rolldownOptions: { input, output: { chunkFileNames: '[name].js' } },
    },
  })
  process.env[PROGRAM_VARIABLE] = join(folder, 'main.js')
  return () => rmSync(place, { recursive: true, force: true })
}
