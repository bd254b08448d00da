import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { loadPolicy } from '../load-policy.ts'
import { parseHere, parseInWorkers } from '../policy-parsers.ts'
import { readKeyFile } from './key-file.ts'
import { findKey, type KeyTable } from './key-table.ts'

const hmacOf = (number: number) => createHash('sha256').update(`key ${number}`).digest()
const hexOf = (number: number) => hmacOf(number).toString('hex')

function written(name: string, text: string | Buffer): { path: string; file: string } {
  const folder = mkdtempSync(join(tmpdir(), 'tidegate-keys-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const path = join(folder, name)
  writeFileSync(path, text)
  return { path, file: name }
}

function tableOf(name: string, text: string): KeyTable {
  const result = readKeyFile({ ...written(name, text), knownDigest: undefined })
  if (result.ok && result.table !== 'known') return result.table
  throw new Error(JSON.stringify(result))
}

function problemsOf(name: string, text: string | Buffer): string[] {
  const result = readKeyFile({ ...written(name, text), knownDigest: undefined })
  return result.ok ? [] : result.problems.map(({ message }) => message)
}

describe('a file of API keys', () => {
  const full = { id: 'clé', organisation: 'org 1', tier: 'gold' }

  it.each([
    ['keys.jsonl', `${JSON.stringify({ hmac: hexOf(1), ...full })}\r\n\n`],
    ['keys.ndjson', JSON.stringify({ ...full, hmac: hexOf(1).toUpperCase() })],
    ['keys.yaml', `# ours\n- { hmac: ${hexOf(1)}, id: clé, organisation: org 1, tier: gold }\n`],
    [
      'keys.yml',
      `---\n  - hmac: ${hexOf(1)}\n    id: "clé"\n    organisation: org 1\n    tier: gold\n`,
    ],
    ['keys.json', JSON.stringify([{ hmac: hexOf(1), ...full }])],
  ])('%s names keys by their HMAC', (name, text) => {
    const table = tableOf(name, text)
    expect(table.count).toBe(1)
    expect(findKey(table, hmacOf(1))).toEqual(full)
    expect(findKey(table, hmacOf(2))).toBeUndefined()
  })

  it.each(['keys.jsonl', 'keys.yaml'])('%s may be empty', (name) => {
    expect(findKey(tableOf(name, '\n'), hmacOf(1))).toBeUndefined()
  })

  it.each([
    ['jsonl', 10_000, (at: number) => JSON.stringify({ hmac: hexOf(at), id: `key_${at}` })],
    ['yaml', 3_000, (at: number) => `- { hmac: ${hexOf(at)}, id: key_${at} }`],
    ['yaml', 3_000, (at: number) => `  - hmac: ${hexOf(at)}\n    id: key_${at}`],
  ] as const)('as %s with %i keys has each of them', (extension, count, line) => {
    const lines = Array.from({ length: count }, (_, at) => line(at))
    const table = tableOf(`keys.${extension}`, lines.join('\n'))
    expect(table.count).toBe(count)
    for (let at = 0; at < count; at++) {
      if (findKey(table, hmacOf(at))?.id !== `key_${at}`) expect.unreachable(`key ${at}`)
    }
    for (let at = count; at < 2 * count; at++) {
      if (findKey(table, hmacOf(at)) !== undefined) expect.unreachable(`key ${at}`)
    }
  })

  const allowedText = 'allowed: a text of 1 to 128 characters'
  const good = JSON.stringify({ hmac: hexOf(1), id: 'a' })

  it.each([
    [`${good}\n{`, 'keys.jsonl:2:1 the line is not a JSON object'],
    [`\n\n[]`, 'keys.jsonl:3:1 a list is not allowed; allowed: a mapping with hmac and id'],
    [
      `{"hmac":"${hexOf(1)}","id":5}`,
      `keys.jsonl:1:1 id: the value is not allowed; ${allowedText}`,
    ],
    [`{"hmac":"${hexOf(1)}","id":"\\ud800"}`, `id: the value is not allowed; ${allowedText}`],
    [`{"hmac":"${hexOf(1)}","id":"a","tier":""}`, `tier: the value is not allowed; ${allowedText}`],
    [`{"hmac":"${hexOf(1)}"}`, `keys.jsonl:1:1 id: is missing; ${allowedText}`],
    [`{"hmac":"x","id":"a"}`, 'hmac: a text of 1 characters is not allowed; allowed: an HMAC-SHA2'],
    [`{"org":"x","id":"a"}`, 'org: is not known; allowed: hmac, id, organisation, tier'],
    [`{"__proto__":1}`, '__proto__: is not known'],
    [`${good}\n\n${good}`, 'keys.jsonl:3:1 hmac: stands in line 1 already'],
  ])('%#: its lines are refused with the place of the problem', (text, problem) => {
    const problems = problemsOf('keys.jsonl', text)
    expect(problems).toHaveLength(1)
    expect(problems[0]).toContain(problem)
  })

  it.each([
    ['a: b', 'keys.yaml:1:1 a mapping is not allowed; allowed: a list of keys'],
    ['- {', 'keys.yaml:1:4 '],
    [
      `- { hmac: ${hexOf(1)}, id: 5 }`,
      `keys.yaml:1:81 [0].id: the value is not allowed; ${allowedText}`,
    ],
    ['- *a', 'aliases (*name) are not allowed'],
    [
      `- { hmac: ${hexOf(1)}, id: a }\n- { id: b, hmac: ${hexOf(1)} }`,
      'keys.yaml:2:18 [1].hmac: stands in entry 0 already',
    ],
  ])('%#: its list is refused with the place of the problem', (text, problem) => {
    const problems = problemsOf('keys.yaml', text)
    expect(problems).toHaveLength(1)
    expect(problems[0]).toContain(problem)
  })

  it('names the line of a problem behind thousands of entries', () => {
    const lines = Array.from({ length: 3_000 }, (_, at) => `- { hmac: ${hexOf(at)}, id: k${at} }\n`)
    const problems = problemsOf('keys.yaml', `${lines.join('')}- { id: x }\n`)
    expect(problems).toEqual([
      'keys.yaml:3001:3 [3000].hmac: is missing; allowed: an HMAC-SHA256 as 64 hexadecimal digits',
    ])
  })

  it('does not repeat what stands in place of an HMAC, which may be a key', () => {
    for (const name of ['keys.jsonl', 'keys.yaml']) {
      const prefix = name.endsWith('yaml') ? '- ' : ''
      const problems = problemsOf(name, `${prefix}{"hmac": "sk_live_canary", "id": "a"}`)
      expect(problems.join('')).toContain('a text of 14 characters')
      expect(problems.join('')).not.toContain('canary')
    }
  })

  it('is refused beyond a bound, or if it is not UTF-8, not a file, or not there', () => {
    const large = ' '.repeat(16 * 1024 ** 2 + 1)
    expect(problemsOf('keys.yaml', large)).toEqual([
      'keys.yaml:1:1 is too large; allowed: 16777216 bytes; ' +
        'a file of one JSON object per line, named .jsonl, may have more',
    ])
    expect(problemsOf('keys.jsonl', large)).toEqual([])
    expect(problemsOf('keys.jsonl', Buffer.from([0x22, 0xff]))).toEqual([
      'keys.jsonl:1:1 is not UTF-8',
    ])
    const folder = { path: tmpdir(), file: 'keys', knownDigest: undefined }
    expect(readKeyFile(folder)).toMatchObject({ problems: [{ message: 'keys:1:1 is not a file' }] })
    const none = { path: join(tmpdir(), 'tidegate-none'), file: 'none', knownDigest: undefined }
    const message = 'none:1:1 there is no such file'
    expect(readKeyFile(none)).toMatchObject({ problems: [{ message }] })
  })

  it('is not parsed again while its content is the same', () => {
    const file = written('keys.jsonl', good)
    const { digest } = tableOf('keys.jsonl', good)
    expect(readKeyFile({ ...file, knownDigest: digest })).toEqual({ ok: true, table: 'known' })
    expect(readKeyFile({ ...written('keys.yaml', good), knownDigest: digest }).ok).toBe(false)
  })

  it('lets others work while another thread reads it', async () => {
    const lines = Array.from({ length: 2_000 }, (_, at) => `- { hmac: ${hexOf(at)}, id: k${at} }\n`)
    const { path } = written('keys.yaml', lines.join(''))
    const auth = 'auth: { apiKeys: { secret: { env: S }, file: keys.yaml } }\n'
    const policy = `${path}-policy.yaml`
    writeFileSync(policy, `limits: []\n${auth}`)
    for (const parsers of [parseHere, parseInWorkers]) {
      let turns = 0
      const counter = setInterval(() => turns++, 1)
      const loaded = await loadPolicy(policy, { parsers })
      clearInterval(counter)
      expect(loaded.ok && loaded.value.keyTable?.count).toBe(2_000)
      expect(turns).toBeGreaterThan(20)
      if (!loaded.ok) return
      const again = await loadPolicy(policy, { parsers, knownKeys: loaded.value.keyTable })
      expect(again.ok && again.value.keyTable).toBe(loaded.value.keyTable)
      expect(again.hash).toBe(loaded.hash)
    }
  })
})
