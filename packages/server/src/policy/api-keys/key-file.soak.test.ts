import { createHash } from 'node:crypto'
import { closeSync, mkdtempSync, openSync, rmSync, writeFileSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { expect, onTestFinished, test } from 'vitest'
import { until } from '../../../../../test/support/servers/until.ts'
import { FileSource } from '../../config/file-source.ts'
import { policyReader } from '../load-policy.ts'
import { findKey } from './key-table.ts'

const KEYS = 500_000

/** Parsing takes seconds, and 3 ms of the event loop. A busy machine stands still by itself. */
const STALL_MS_MAX = 500

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
  const delay = monitorEventLoopDelay({ resolution: 5 })
  const longestMs = () => {
    const { max } = delay
    delay.reset()
    return max / 1e6
  }

  delay.enable()
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
  expect(first?.count).toBe(KEYS)
  expect(longestMs()).toBeLessThan(STALL_MS_MAX)

  writeFileSync(file, policy(2))
  await until('the policy has changed', () => policies.length === 1)
  expect(source.current?.value.keyTable).toBe(first)
  expect(longestMs()).toBeLessThan(STALL_MS_MAX)

  writeKeys(keys, 'second')
  delay.reset()
  await until('the keys have changed', () => policies.length === 2)
  const second = source.current?.value.keyTable
  if (second === undefined) return expect.unreachable()
  for (let at = 0; at < KEYS; at += 997) {
    expect(findKey(second, hmacOf(at))).toEqual({ id: `key_${at}`, organisation: 'second' })
  }
  expect(findKey(second, hmacOf(KEYS))).toBeUndefined()
  expect(longestMs()).toBeLessThan(STALL_MS_MAX)
})
