/** The published server package: a program that needs no TypeScript, without tests. */

import { execFile } from 'node:child_process'
import { mkdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { publint } from 'publint'
import { formatMessage } from 'publint/utils'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { readText, repositoryRoot } from '../../house/source-file.ts'

const run = promisify(execFile)
const SLOW_MS = 120_000

/** Inside the repository, so that the package finds its dependencies. */
const place = join(repositoryRoot, '.cache', `server-package-test-${process.pid}`)
const archive = join(repositoryRoot, '.cache/pack/tidegate-server-0.1.0.tgz')
const program = join(place, 'package/dist/main.js')

let files: readonly string[] = []

beforeAll(async () => {
  await run(join(repositoryRoot, 'run.sh'), ['pack'])
  mkdirSync(place, { recursive: true })
  await run('tar', ['xzf', archive, '-C', place])
  const { stdout } = await run('tar', ['tzf', archive])
  files = stdout.trim().split('\n')
}, SLOW_MS)

afterAll(() => rmSync(place, { recursive: true, force: true }))

describe('the packed server', () => {
  test('has the program and the schema, and nothing of tests', () => {
    expect(files).toContain('package/dist/main.js')
    expect(files).toContain('package/tidegate.schema.json')
    expect(files.filter((file) => /\.test\.|-contract\.|generate-|\/src\//.test(file))).toEqual([])
  })

  test('has the licence of the repository', () => {
    expect(readText('packages/server/LICENSE')).toBe(readText('LICENSE'))
  })

  test('is clean for publint', async () => {
    const bytes = new Uint8Array(readFileSync(archive))
    const { messages, pkg } = await publint({ strict: true, pack: { tarball: bytes.buffer } })
    expect(messages.map((message) => formatMessage(message, pkg, { color: false }))).toEqual([])
  })

  test('runs', async () => {
    const { stdout } = await run(process.execPath, [program, 'version'])
    expect(stdout).toBe('tidegate 0.1.0\n')
    const sample = join(repositoryRoot, 'examples/tidegate.yaml')
    const checked = await run(process.execPath, [program, 'check', '--config', sample])
    expect(checked.stdout).toContain('is valid')
  })
})
