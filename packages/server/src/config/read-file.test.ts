import { execFileSync, spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { makeFolder, removeFolder } from '../../../../test/support/servers/server-process.ts'
import { readSmallFile } from './read-file.ts'
import { secretReader } from './secrets.ts'
import { readTlsFiles, tlsProblems } from './tls-files.ts'

function folder(): string {
  const made = makeFolder()
  onTestFinished(() => removeFolder(made))
  return made
}

/** A FIFO with a text in it. A reader that opens it waits for that text, or for ever. */
function makeFifo(): string {
  const path = join(folder(), 'fifo')
  execFileSync('mkfifo', [path])
  const writer = spawn('sh', ['-c', 'printf text > "$0"', path])
  onTestFinished(() => void writer.kill('SIGKILL'))
  return path
}

const readers: Readonly<Record<string, (path: string) => unknown>> = {
  'a small file': readSmallFile,
  'a certificate': (cert) => readTlsFiles({ cert }),
  'a secret': (file) => secretReader({}, '')({ file }, 'auth.apiKeys.secret'),
}

test.each(Object.entries(readers))('%s is not read from a FIFO or a device', (_name, read) => {
  const path = join(folder(), 'file')
  writeFileSync(path, 'text')
  expect(() => read(path)).not.toThrow()
  for (const other of [makeFifo(), '/dev/null', folder()]) expect(() => read(other)).toThrow()
})

test('a certificate that is not a file is a problem of the policy', () => {
  expect(tlsProblems('tls', { cert: makeFifo() }, '')).toEqual([
    expect.stringMatching(/^tls\.cert .*: cannot be used: it is not a file$/),
  ])
})

test('a small file has at most 4 MiB', () => {
  const path = join(folder(), 'file')
  writeFileSync(path, Buffer.alloc(4 * 1_048_576 + 1))
  expect(() => readSmallFile(path)).toThrow('it is too large; allowed: 4194304 bytes')
})
