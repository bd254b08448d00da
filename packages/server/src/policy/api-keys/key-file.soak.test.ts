import { createHash } from 'node:crypto'
import {
  closeSync,
  mkdtempSync,
  openSync,
  renameSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, onTestFinished, test } from 'vitest'
import { until } from '../../../../../test/support/servers/until.ts'
import { FileSource } from '../../config/file-source.ts'
import { policyReader } from '../load-policy.ts'
import { findKey } from './key-table.ts'

setFlagsFromString('--expose-gc')
const collect: () => void = runInNewContext('gc')

const KEYS = 500_000

/**
 * CPU time of the event loop. Parsing takes seconds in its own thread, and 5 ms of this one. The
 * bound finds parsing in this thread only: a virtual machine charges a thread with time in which
 * its host has stopped it, which took up to 100 ms of a turn.
 */
const STALL_MS_MAX = 500

/**
 * Returns a function for the longest stall of the event loop since its last call, as CPU time of
 * this thread: a busy machine adds nothing to it.
 */
function watchStalls(): () => number {
  let before = process.threadCpuUsage()
  let longestMs = 0
  const timer = setInterval(() => {
    const { user, system } = process.threadCpuUsage(before)
    before = process.threadCpuUsage()
    longestMs = Math.max(longestMs, (user + system) / 1_000)
  }, 2)
  onTestFinished(() => clearInterval(timer))
  return () => {
    const measuredMs = longestMs
    longestMs = 0
    before = process.threadCpuUsage()
    return measuredMs
  }
}

function expectNoStall(what: string, longestMs: number): void {
  console.info(`${what}: the longest stall took ${longestMs.toFixed(0)} ms`)
  expect(longestMs).toBeLessThan(STALL_MS_MAX)
}

const hmacOf = (number: number) => createHash('sha256').update(`key ${number}`).digest()

function writeKeys(path: string, organisation: string): void {
  const handle = openSync(path, 'w')
  for (let start = 0; start < KEYS; start += 10_000) {
    const lines = Array.from({ length: 10_000 }, (_, at) => {
      const hmac = hmacOf(start + at).toString('hex')
      return `${JSON.stringify({ hmac, id: `key_${start + at}`, organisation })}\n`
    })
    writeSync(handle, lines.join(''))
  }
  closeSync(handle)
}

test('half a million API keys come and change without a pause of the process', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tidegate-keys-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const [file, keys] = [join(folder, 'tidegate.yaml'), join(folder, 'keys.jsonl')]
  const policy = (limit: number) =>
    `limits: [{ name: a, key: ip, limit: ${limit}, per: 1s }]\n` +
    'auth: { apiKeys: { secret: { env: S }, file: keys.jsonl } }\n'
  writeFileSync(file, policy(1))
  writeKeys(keys, 'first')
  writeKeys(`${keys}.next`, 'second')
  // What the test itself has allocated is not collected while it measures.
  collect()
  const longestMs = watchStalls()
  const policies: unknown[] = []
  const source = new FileSource(policyReader(file))
  const opened = await source.read()
  if (!opened.ok) throw new Error(JSON.stringify(opened.problems))
  source.follow({
    onChange: (loaded) => void policies.push(loaded),
    onRefused: (problems) => expect.unreachable(JSON.stringify(problems)),
  })
  onTestFinished(() => source.close())
  const first = opened.value.keyTable
  // The first reading also loads and compiles code.
  expectNoStall('the first reading', longestMs())
  expect(first?.count).toBe(KEYS)

  collect()
  longestMs()
  writeFileSync(file, policy(2))
  await until('the policy has changed', () => policies.length === 1)
  expect(source.current?.value.keyTable).toBe(first)
  expectNoStall('another policy', longestMs())

  renameSync(`${keys}.next`, keys)
  await until('the keys have changed', () => policies.length === 2)
  expectNoStall('other keys', longestMs())
  const second = source.current?.value.keyTable
  if (second === undefined) return expect.unreachable()
  for (let at = 0; at < KEYS; at += 997) {
    expect(findKey(second, hmacOf(at))).toEqual({ id: `key_${at}`, organisation: 'second' })
  }
  expect(findKey(second, hmacOf(KEYS))).toBeUndefined()
})
