/**
 * Both packages as their users get them. The library is installed without a network into projects
 * of every kind, and run there with this Node and with the oldest supported one. The server is a
 * program that needs no TypeScript.
 */

import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { publint } from 'publint'
import { formatMessage } from 'publint/utils'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { readText, repositoryRoot } from './source-file.ts'

/** The lower bound of `engines` in package.json. */
const NODE_OLDEST = '22.18.0'

/** Enough to pack, and to fetch a Node over a slow line. */
const SLOW_MS = 300_000

const versions = ['this Node', `Node ${NODE_OLDEST}`]

const run = promisify(execFile)
const libraryFolder = join(repositoryRoot, 'packages/tidegate')
const manifest = JSON.parse(readText('packages/tidegate/package.json'))
/** These need a test runner, or `@opentelemetry/api`. */
const optional = ['./testing', './opentelemetry']
/** The entry points that load everywhere. */
const entries: readonly string[] = Object.keys(manifest.exports)
  .filter((path) => path !== './package.json' && !optional.includes(path))
  .map((path) => path.replace(/^\./, 'tidegate'))

/** Outside the repository, where only the installed package can be found. */
const emptyPlace = mkdtempSync(join(tmpdir(), 'tidegate-package-'))
/** Inside the repository, where a project finds types and dependencies. */
const typedPlace = join(repositoryRoot, '.cache', `package-test-${process.pid}`)

const archives = join(repositoryRoot, '.cache/pack')
const tarball = join(archives, 'tidegate-0.1.0.tgz')
const serverTarball = join(archives, 'tidegate-server-0.1.0.tgz')
let packedFiles: readonly string[] = []
let nodeOldest: string | undefined

beforeAll(async () => {
  await run(join(repositoryRoot, 'run.sh'), ['pack'])
  packedFiles = await filesIn(tarball)
  nodeOldest = await fetchedNode(NODE_OLDEST)
}, SLOW_MS)

afterAll(() => {
  for (const place of [emptyPlace, typedPlace]) rmSync(place, { recursive: true, force: true })
})

describe('the packed library', () => {
  test('holds compiled files, its manifest, README and licence, and nothing else', () => {
    expect(packedFiles).toEqual(expect.arrayContaining(['README.md', 'LICENSE', 'package.json']))
    const isCompiled = /^dist\/[\w/-]+(?:\.generated)?(\.d\.ts|\.js|\.js\.map)$/
    const others = packedFiles.filter((path) => !isCompiled.test(path))
    expect(others.sort()).toEqual(['LICENSE', 'README.md', 'package.json'])
  })

  test('has a file for every entry point', () => {
    const wanted = JSON.stringify(manifest.exports).match(/dist\/[^"]+/g)
    expect(packedFiles).toEqual(expect.arrayContaining(wanted ?? []))
  })

  test('explains its functions to editors, and its files to debuggers', () => {
    const documented = [
      'limits/limits',
      'limiter/limiter',
      'stores/redis/redis-store',
      'middleware/hono',
    ]
    for (const file of documented) {
      const declarations = readText(`packages/tidegate/dist/${file}.d.ts`).split('\n')
      const bare = declarations.filter((line, at) => {
        const before = declarations[at - 1] ?? ''
        return line.startsWith('export declare function') && !before.endsWith('*/')
      })
      expect(bare).toEqual([])
      const map = JSON.parse(readText(`packages/tidegate/dist/${file}.js.map`))
      expect(map.sourcesContent).toEqual([readText(`packages/tidegate/src/${file}.ts`)])
    }
  })

  test('has the licence of the repository', () => {
    expect(readText('packages/tidegate/LICENSE')).toBe(readText('LICENSE'))
  })

  test('is clean for publint', async () => {
    expect(await publintMessages(tarball)).toEqual([])
  })

  test('has types that every resolution finds', { timeout: SLOW_MS }, async () => {
    const attw = join(repositoryRoot, 'node_modules/@arethetypeswrong/cli/dist/index.js')
    const config = join(libraryFolder, '.attw.json')
    const printed = await output(process.execPath, [attw, tarball, '--config-path', config])
    expect(printed).not.toContain('exit code')
  })
})

describe('the packed server', () => {
  test('has the program and the schema, and nothing of tests', async () => {
    const files = await filesIn(serverTarball)
    expect(files).toContain('dist/main.js')
    expect(files).toContain('tidegate.schema.json')
    expect(files).toContain('console/index.html')
    expect(files.filter((file) => /^console\/assets\/index-.*\.(js|css)$/.test(file))).toHaveLength(
      2,
    )
    expect(
      files.filter((file) => /\.test\.|-contract\.|generate-|(?:^|\/)src\//.test(file)),
    ).toEqual([])
  })

  test('has the licence of the repository', () => {
    expect(readText('packages/server/LICENSE')).toBe(readText('LICENSE'))
  })

  test('is clean for publint', async () => {
    expect(await publintMessages(serverTarball)).toEqual([])
  })

  test('runs', async () => {
    const folder = join(typedPlace, 'server')
    mkdirSync(folder, { recursive: true })
    await run('tar', ['xzf', serverTarball, '-C', folder])
    const program = join(folder, 'package/dist/main.js')
    const { stdout } = await run(process.execPath, [program, 'version'])
    expect(stdout).toBe('tidegate 0.1.0\n')
    const sample = join(repositoryRoot, 'examples/tidegate.yaml')
    const checked = await run(process.execPath, [program, 'check', '--config', sample])
    expect(checked.stdout).toContain('is valid')
  })
})

describe.for(versions)('on %s the packed library', (version) => {
  const nodeFor = () => (version === 'this Node' ? process.execPath : nodeOldest)
  const noNode = `Node ${NODE_OLDEST} could not be fetched`

  test('admits two of three in an ES module project', { timeout: SLOW_MS }, async (context) => {
    const node = nodeFor()
    if (node === undefined) return context.skip(noNode)
    const folder = await project(emptyPlace, `esm ${version}`, { type: 'module' })
    writeFileSync(join(folder, 'main.js'), esModule())
    expect(await output(node, ['main.js'], folder)).toBe(expectedOutput)
  })

  test('admits two of three in a CommonJS project', { timeout: SLOW_MS }, async (context) => {
    const node = nodeFor()
    if (node === undefined) return context.skip(noNode)
    const folder = await project(emptyPlace, `cjs ${version}`, { type: 'commonjs' })
    writeFileSync(join(folder, 'main.js'), commonJs())
    expect(await output(node, ['main.js'], folder)).toBe(expectedOutput)
  })

  test('admits two of three in a TypeScript project', { timeout: SLOW_MS }, async (context) => {
    const node = nodeFor()
    if (node === undefined) return context.skip(noNode)
    const folder = await project(typedPlace, `ts ${version}`, { type: 'module' })
    writeFileSync(join(folder, 'main.ts'), esModule())
    writeFileSync(join(folder, 'main-in-commonjs.cts'), typedCommonJs())
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions }))
    const tsc = join(repositoryRoot, 'node_modules/typescript/bin/tsc')
    const complaints = (await output(process.execPath, [tsc, '-p', '.'], folder)).split('\n')
    expect(
      complaints.filter((line) => /^[\w-]+\.c?ts|node_modules\/tidegate\//.test(line)),
    ).toEqual([])
    for (const file of ['main.js', 'main-in-commonjs.cjs']) {
      expect(await output(node, [file], folder)).toBe(expectedOutput)
    }
  })
})

/** Declarations are checked too; errors in those of the frameworks are ignored. */
const compilerOptions = {
  strict: true,
  exactOptionalPropertyTypes: true,
  module: 'nodenext',
  target: 'es2024',
  lib: ['es2024'],
  types: ['node'],
}

/** Throws if an entry point lacks a function; prints whether each of three calls is allowed. */
const program = `
for (const entry of entries) {
  if (!Object.values(entry).some((it) => typeof it === 'function')) throw new Error('empty')
}
const limiter = createLimiter({ limit: tokenBucket({ limit: 2, per: '1h' }) })
console.log([1, 2, 3].map(() => limiter.checkSync('ada').allowed).join())
`
const expectedOutput = 'true,true,false\n'

function esModule(): string {
  const imports = entries.map((entry, index) => `import * as entry${index} from '${entry}'`)
  return `${imports.join('\n')}
import { createLimiter, tokenBucket } from 'tidegate'
const entries = [${entries.map((_, index) => `entry${index}`)}]${program}`
}

function commonJs(): string {
  return `const { createLimiter, tokenBucket } = require('tidegate')
const entries = [${entries.map((entry) => `require('${entry}')`)}]${program}`
}

function typedCommonJs(): string {
  const imports = entries.map((entry, index) => `import entry${index} = require('${entry}')`)
  return `${imports.join('\n')}
const { createLimiter, tokenBucket } = entry0
const entries = [${entries.map((_, index) => `entry${index}`)}]${program}`
}

/** The paths of a package's files, without the folder that is around all of them. */
async function filesIn(archive: string): Promise<string[]> {
  const { stdout } = await run('tar', ['tzf', archive])
  return stdout
    .trim()
    .split('\n')
    .map((path) => path.replace(/^package\//, ''))
}

async function publintMessages(archive: string): Promise<(string | undefined)[]> {
  const bytes = new Uint8Array(readFileSync(archive))
  const { messages, pkg } = await publint({ strict: true, pack: { tarball: bytes.buffer } })
  return messages.map((message) => formatMessage(message, pkg, { color: false }))
}

/** A folder with the package installed from its tarball and nothing else. */
async function project(place: string, name: string, fields: object): Promise<string> {
  const folder = join(place, name.replaceAll(' ', '-'))
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ private: true, ...fields }))
  const options = ['--offline', '--ignore-scripts', '--no-audit', '--no-fund']
  await run('npm', ['install', ...options, tarball], { cwd: folder })
  return folder
}

async function fetchedNode(version: string): Promise<string | undefined> {
  try {
    const script = join(repositoryRoot, 'run.sh')
    return (await run(script, ['node', version, '-p', 'process.execPath'])).stdout.trim()
  } catch (error) {
    console.warn(String(error))
    return undefined
  }
}

/** The output of a command, with its error if it fails, so that the comparison shows everything. */
async function output(command: string, args: readonly string[], cwd?: string): Promise<string> {
  const failed = (error: { stdout?: string; stderr?: string; code?: number }) => ({
    stdout: `${error.stdout}${error.stderr}exit code ${error.code}\n`,
  })
  return (await run(command, args, { cwd }).catch(failed)).stdout
}
