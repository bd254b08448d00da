/**
 * Builds the console into `packages/server/console`, or into the folder that the argument names:
 * files with hashed names, each with a packed copy beside it, because to pack them at a request
 * would hold up the gateway.
 */

import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { constants, gzipSync } from 'node:zlib'
import { build } from 'vite'

const here = import.meta.dirname
const folder = resolve(process.argv[2] ?? join(here, '../server/console'))

// Vite takes another value over from its caller, such as a test, and then builds 5 KB more.
process.env.NODE_ENV = 'production'

await build({
  root: here,
  base: './',
  configFile: false,
  logLevel: 'warn',
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    outDir: folder,
    emptyOutDir: true,
    target: 'es2022',
    // Browsers that load modules know this without help.
    modulePreload: { polyfill: false },
    // A data URL in a style would need an exception of the policy.
    assetsInlineLimit: 0,
    reportCompressedSize: false,
  },
})

for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
  if (!/\.(js|css|html|svg)$/.test(name)) continue
  const file = join(folder, name)
  writeFileSync(`${file}.gz`, gzipSync(readFileSync(file), { level: constants.Z_BEST_COMPRESSION }))
}
