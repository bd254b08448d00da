import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import {
  mkdirSync,
  mkdtempSync,
  openSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { until } from '../../../../test/support/servers/until.ts'
import { FileSource } from '../config/file-source.ts'
import type { ConfigVersion } from '../config/source.ts'
import { loadPolicy, type PolicyFiles, policyReader } from './load-policy.ts'
import { type PolicyParsers, parseHere, parseInWorkers } from './policy-parsers.ts'

const policy = (limit: number, rest = '') =>
  `limits: [{ name: a, key: everyone, limit: ${limit}, per: 1s }]\n${rest}`

let folder: string
let file: string
let source: FileSource<PolicyFiles> | undefined

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tidegate-policy-'))
  file = join(folder, 'tidegate.yaml')
})

afterEach(() => {
  source?.close()
  source = undefined
  rmSync(folder, { recursive: true, force: true })
})

type Version = ConfigVersion<PolicyFiles>

interface OpenOptions {
  readonly otherFiles?: readonly string[]
  /** To start a worker for each change takes many times as long as the rest of a test. */
  readonly parsers?: PolicyParsers
}

async function open({ otherFiles = [], parsers = parseHere }: OpenOptions = {}) {
  const policies: Version[] = []
  const refusals: string[] = []
  const reads = { count: 0 }
  const filesOf = () => {
    reads.count++
    return otherFiles
  }
  const opened = new FileSource(policyReader(file, filesOf, parsers))
  const first = await opened.read()
  if (!first.ok) throw new Error(first.problems.map(({ message }) => message).join('\n'))
  opened.follow({
    onChange: (loaded) => void policies.push(loaded),
    onRefused: (problems) => void refusals.push(...problems.map(({ message }) => message)),
  })
  source = opened
  return { source: opened, policies, refusals, reads }
}

/** The version of a source that has been read. */
const currentOf = ({ current }: FileSource<PolicyFiles>) => {
  if (current === undefined) throw new Error('there is no policy')
  return current
}

const line = (name: string) => `  - { name: ${name}, key: everyone, limit: 1, per: 1s }\n`

async function listenOn(path: string): Promise<void> {
  const server = createServer().listen(path)
  await once(server, 'listening')
  onTestFinished(() => void server.close())
}

const limitOf = ({ value }: Version) => value.document.limits[0]?.limit

describe('a policy file', () => {
  it('has a version, which counts on with every change', async () => {
    writeFileSync(file, policy(1))
    const { source, policies } = await open({ parsers: parseInWorkers })
    const first = currentOf(source)
    expect(first).toMatchObject({ sequence: 1, id: expect.stringMatching(/^1-[0-9a-f]{12}$/) })
    expect(Math.abs(Date.now() - first.loadedAtMs)).toBeLessThan(60_000)
    writeFileSync(file, policy(2))
    await until('the change was told', async () => policies.length === 1)
    expect(limitOf(currentOf(source))).toBe(2)
    expect(currentOf(source).id).toMatch(/^2-/)
    expect(source.current).toBe(policies[0])
  })

  it('that is replaced by another, as editors do, is noticed', async () => {
    writeFileSync(file, policy(1))
    const { policies } = await open()
    for (const limit of [2, 3]) {
      writeFileSync(`${file}.new`, policy(limit))
      renameSync(`${file}.new`, file)
      await until(
        'the change was told',
        async () => policies.at(-1)?.value.document.limits[0]?.limit === limit,
      )
    }
  })

  it('is not read again for files that merely lie beside it', async () => {
    writeFileSync(file, policy(1))
    const { policies, reads } = await open()
    for (let at = 0; at < 10; at++) {
      writeFileSync(join(folder, 'access.log'), `line ${at}`)
      await pause(100)
    }
    expect(reads.count).toBe(1)
    writeFileSync(file, policy(2))
    await until('the change was told', async () => policies.length === 1)
    expect(reads.count).toBeGreaterThan(1)
  })

  it('behind the links of Kubernetes is noticed', async () => {
    for (const [name, limit] of [
      ['v1', 1],
      ['v2', 2],
    ] as const) {
      mkdirSync(join(folder, name))
      writeFileSync(join(folder, name, 'tidegate.yaml'), policy(limit))
    }
    symlinkSync('v1', join(folder, '..data'))
    symlinkSync(join('..data', 'tidegate.yaml'), file)
    const { source, policies } = await open()
    expect(limitOf(currentOf(source))).toBe(1)
    symlinkSync('v2', join(folder, '..tmp'))
    renameSync(join(folder, '..tmp'), join(folder, '..data'))
    await until('the change was told', async () => policies.length === 1)
    expect(limitOf(currentOf(source))).toBe(2)
  })

  it('that is wrong is refused with its problems, once, and the one before stays', async () => {
    writeFileSync(file, policy(1))
    const { source, policies, refusals } = await open()
    const before = source.current
    writeFileSync(file, policy(-1))
    await until('the refusal was told', async () => refusals.length === 1)
    expect(refusals).toEqual([
      `${file}:1:43 limits[0].limit: -1 is not allowed; ` +
        'allowed: a whole number from 0 to 9007199254740991',
    ])
    await source.reload()
    expect(refusals).toHaveLength(1)
    expect(source.current).toBe(before)
    writeFileSync(file, policy(1))
    await source.reload()
    expect({ policies, refusals }).toMatchObject({ policies: [], refusals: [expect.anything()] })
    expect(source.current).toBe(before)
    writeFileSync(file, policy(3))
    await until('the next change was told', async () => policies.length === 1)
    expect(currentOf(source).sequence).toBe(2)
  })

  it('that is removed is refused, and back again changes nothing', async () => {
    writeFileSync(file, policy(1))
    const { source, policies, refusals } = await open()
    rmSync(file)
    await until('it was told', async () => refusals.length === 1)
    expect(refusals).toEqual([`${file}:1:1 there is no such file`])
    writeFileSync(file, policy(1))
    await source.reload()
    expect(policies).toEqual([])
  })

  it('that is being written is left alone until it is complete', async () => {
    writeFileSync(file, policy(1))
    const { policies, refusals } = await open()
    const lines = Array.from(
      { length: 12 },
      (_, at) => `  - { name: a${at}, key: everyone, limit: 1, per: 1s }\n`,
    )
    const handle = openSync(file, 'w')
    writeSync(handle, 'limits:\n')
    // Each line makes it a valid policy with too few limits; written by a slow hand.
    for (const line of lines) {
      writeSync(handle, line)
      await new Promise((done) => setTimeout(done, 40))
    }
    await until('the change was told', async () => policies.length > 0)
    expect(policies.map(({ value }) => value.document.limits.length)).toEqual([12])
    expect(refusals).toEqual([])
  })

  it('that was cut off before its limits, in a line or before its marker is refused', async () => {
    const upstreams = 'upstreams: { a: { targets: ["http://127.0.0.1:1"] } }\n'
    const whole = `${upstreams}limits:\n${['a', 'b', 'c'].map(line).join('')}`
    writeFileSync(file, whole)
    const { source, policies, refusals } = await open()
    const refused = async (text: string, count: number) => {
      writeFileSync(file, text)
      await until('the refusal was told', async () => refusals.length === count)
    }
    await refused(upstreams, 1)
    await refused(`${upstreams}limits:\n`, 2)
    await refused(`${upstreams}limits:\n${line('a')}${line('b').trimEnd()}`, 3)
    expect(refusals.map((text) => text.replace(file, ''))).toEqual([
      ':1:1 limits: is missing; allowed: a list of limits. To limit nothing, write limits: []',
      ':2:8 limits: null is not allowed; allowed: a list',
      ':1:1 may be cut off: it does not end with a newline, as the policy before it did',
    ])
    const marked = `${whole}...\n`
    writeFileSync(file, marked)
    await until('the marked policy was told', async () => policies.length === 1)
    await refused(marked.slice(0, -'...\n'.length - line('c').length), 4)
    expect(refusals[3]).toContain('it does not end with the marker ..., as the policy before it')
    expect(currentOf(source).value.document.limits).toHaveLength(3)
  })

  it('that says that it limits nothing applies', async () => {
    writeFileSync(file, policy(1))
    const { policies, refusals } = await open()
    writeFileSync(file, 'limits: []\n')
    await until('it was told', async () => policies.length === 1)
    writeFileSync(file, 'enabled: false\n')
    await until('it was told', async () => policies.length === 2)
    expect(refusals).toEqual([])
  })

  it.each(['a FIFO', 'a folder', 'a device', 'a socket'])(
    'whose place %s takes is refused, and a later file is picked up',
    async (kind) => {
      writeFileSync(file, policy(1))
      const { policies, refusals } = await open()
      rmSync(file)
      if (kind === 'a FIFO') execFileSync('mkfifo', [file])
      else if (kind === 'a folder') mkdirSync(file)
      else if (kind === 'a device') symlinkSync('/dev/zero', file)
      else await listenOn(file)
      await until('the refusal was told', async () => refusals.length > 0)
      expect(refusals.at(-1)).toMatch(/:1:1 (is not a file|cannot be read: ENXIO)$/)
      rmSync(file, { recursive: true })
      writeFileSync(file, policy(2))
      await until('the good one was told', async () => policies.length === 1)
      expect(policies.map(limitOf)).toEqual([2])
    },
  )

  it('changes with the files that it refers to', async () => {
    const tiers =
      'tiers: { names: [free, pro], default: free, lookup: { file: tiers.yaml, by: user } }'
    writeFileSync(file, policy(1, tiers))
    writeFileSync(join(folder, 'tiers.yaml'), 'ada: pro\n')
    mkdirSync(join(folder, 'keys'))
    writeFileSync(join(folder, 'keys', 'api-keys.yaml'), '[]\n')
    const { source, policies, refusals } = await open({
      otherFiles: ['keys/api-keys.yaml'],
      parsers: parseInWorkers,
    })
    expect([...(currentOf(source).value.tierTable ?? [])]).toEqual([['ada', 'pro']])
    writeFileSync(join(folder, 'tiers.yaml'), 'ada: pro\neve: pro\n')
    await until('the tiers were told', async () => policies.length === 1)
    expect(currentOf(source).value.tierTable?.get('eve')).toBe('pro')
    writeFileSync(join(folder, 'keys', 'api-keys.yaml'), '[{}]\n')
    await until('the keys were told', async () => policies.length === 2)
    writeFileSync(join(folder, 'tiers.yaml'), 'ada: gold\n')
    await until('the refusal was told', async () => refusals.length === 1)
    expect(refusals).toEqual(['tiers.yaml:1:6 ada: the tier is not allowed; allowed: free, pro'])
    writeFileSync(join(folder, 'tiers.yaml'), 'ada: free\n')
    await until('the mended tiers were told', async () => policies.length === 3)
  })

  it('changes with its file of API keys, and keeps the table while that stays', async () => {
    const keys = join(folder, 'keys.jsonl')
    const hmac = 'ab'.repeat(32)
    writeFileSync(keys, JSON.stringify({ hmac, id: 'a' }))
    const auth = 'auth: { apiKeys: { secret: { env: S }, file: keys.jsonl } }'
    writeFileSync(file, policy(1, auth))
    const { source, policies, refusals } = await open()
    const first = currentOf(source).value.keyTable
    expect(first?.count).toBe(1)
    writeFileSync(file, policy(2, auth))
    await until('the policy was told', async () => policies.length === 1)
    expect(currentOf(source).value.keyTable).toBe(first)
    writeFileSync(keys, '')
    await until('the keys were told', async () => policies.length === 2)
    expect(currentOf(source).value.keyTable?.count).toBe(0)
    writeFileSync(keys, '{}')
    await until('the refusal was told', async () => refusals.length === 1)
    expect(refusals[0]).toMatch(/^keys\.jsonl:1:1 hmac: is missing; allowed: an HMAC/)
    rmSync(keys)
    await until('the refusal was told', async () => refusals.length === 2)
    expect(refusals[1]).toBe('keys.jsonl:1:1 there is no such file')
    expect(currentOf(source).value.keyTable?.count).toBe(0)
  })

  it('is not looked at any more when closed', async () => {
    writeFileSync(file, policy(1))
    const { source, policies } = await open()
    source.close()
    writeFileSync(file, policy(2))
    await source.reload()
    expect(policies).toEqual([])
  })
})

describe('loading a policy', () => {
  it('tells a file that is not there, too large or no file', async () => {
    const told = async (path: string) => {
      const loaded = await loadPolicy(path)
      return loaded.ok ? [] : loaded.problems.map(({ message }) => message)
    }
    expect(await told(file)).toEqual([`${file}:1:1 there is no such file`])
    expect((await told(folder))[0]).toMatch(/:1:1 is not a file$/)
    writeFileSync(file, ' '.repeat(262_145))
    expect(await told(file)).toEqual([`${file}:1:1 is too large; allowed: 262144 bytes`])
  })

  it('tells the line of bytes that are not UTF-8, of tiers as well', async () => {
    const told = async () => {
      const loaded = await loadPolicy(file)
      return loaded.ok ? [] : loaded.problems.map(({ message }) => message)
    }
    const latin1 = (text: string) => Buffer.from(text, 'latin1')
    writeFileSync(file, latin1(`${policy(1)}# one\n# M\xfcller\n`))
    expect(await told()).toEqual([`${file}:3:4 is not UTF-8 here`])
    writeFileSync(file, `${policy(1)}# Müller\n`)
    expect(await told()).toEqual([])
    const tiers = 'tiers: { names: [free], default: free, lookup: { file: t.yaml, by: user } }'
    writeFileSync(file, policy(1, tiers))
    writeFileSync(join(folder, 't.yaml'), latin1('ada: free\nm\xfcller: free\n'))
    expect(await told()).toEqual(['t.yaml:2:2 is not UTF-8 here'])
  })

  it('lets others work while another thread reads a long one', async () => {
    const overrides = Array.from(
      { length: 2_000 },
      (_, at) => `  - { limit: a, key: key_${at}, set: { limit: ${at} } }\n`,
    )
    const head = 'limits: [{ name: a, key: ip, limit: 1, per: 1s }]\noverrides:\n'
    writeFileSync(file, head + overrides.join(''))
    let turns = 0
    const counter = setInterval(() => turns++, 1)
    const loaded = await loadPolicy(file, { parsers: parseInWorkers, filesOf: () => [] })
    clearInterval(counter)
    expect(loaded.ok && loaded.value.document.overrides.length).toBe(2_000)
    expect(turns).toBeGreaterThan(10)
    writeFileSync(file, `${head + overrides.join('')}  - { limit: b, key: x, set: { limit: 1 } }\n`)
    expect(await loadPolicy(file, { parsers: parseInWorkers, filesOf: () => [] })).toMatchObject({
      ok: false,
      problems: [{ line: 2_003, path: 'overrides[2000].limit' }],
    })
  })

  it('says the same in another thread, of tiers as well', async () => {
    const tiers = 'tiers: { names: [free], default: free, lookup: { file: t.yaml, by: user } }'
    writeFileSync(file, policy(1, tiers))
    for (const table of ['ada: free\n', 'ada: gold\n', '[', '- x\n']) {
      writeFileSync(join(folder, 't.yaml'), table)
      expect(await loadPolicy(file, { parsers: parseInWorkers, filesOf: () => [] })).toEqual(
        await loadPolicy(file),
      )
    }
  })

  it('tells a file of tiers that is not there', async () => {
    const tiers = 'tiers: { names: [free], default: free, lookup: { file: t.yaml, by: user } }'
    writeFileSync(file, policy(1, tiers))
    const loaded = await loadPolicy(file)
    expect(loaded).toMatchObject({
      ok: false,
      problems: [{ message: 't.yaml:1:1 there is no such file' }],
    })
  })
})
