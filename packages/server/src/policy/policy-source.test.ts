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
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { until } from '../../../../test/servers/until.ts'
import { loadPolicy } from './load-policy.ts'
import { readAside } from './policy-readers.ts'
import { type LivePolicyFiles, openPolicy, type PolicySource } from './policy-source.ts'

const policy = (limit: number, rest = '') =>
  `limits: [{ name: a, key: everyone, limit: ${limit}, per: 1s }]\n${rest}`

let folder: string
let file: string
let source: PolicySource | undefined

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tidegate-policy-'))
  file = join(folder, 'tidegate.yaml')
})

afterEach(() => {
  source?.close()
  source = undefined
  rmSync(folder, { recursive: true, force: true })
})

async function open(otherFiles: readonly string[] = []) {
  const policies: LivePolicyFiles[] = []
  const refusals: string[] = []
  const reads = { count: 0 }
  const opened = await openPolicy(file, {
    onPolicy: (loaded) => void policies.push(loaded),
    onRefused: (problems) => void refusals.push(...problems.map(({ message }) => message)),
    otherFiles: () => {
      reads.count++
      return otherFiles
    },
  })
  if (!opened.ok) throw new Error(opened.problems.map(({ message }) => message).join('\n'))
  source = opened.source
  return { source: opened.source, policies, refusals, reads }
}

const limitOf = ({ document }: LivePolicyFiles) => document.limits[0]?.limit

describe('a policy file', () => {
  it('has a version, which counts on with every change', async () => {
    writeFileSync(file, policy(1))
    const { source, policies } = await open()
    const first = source.current.version
    expect(first).toMatchObject({ sequence: 1, id: expect.stringMatching(/^1-[0-9a-f]{12}$/) })
    expect(Math.abs(Date.now() - first.loadedAtMs)).toBeLessThan(60_000)
    writeFileSync(file, policy(2))
    await until('the change was told', async () => policies.length === 1)
    expect(limitOf(source.current)).toBe(2)
    expect(source.current.version.id).toMatch(/^2-/)
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
        async () => policies.at(-1)?.document.limits[0]?.limit === limit,
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
    expect(limitOf(source.current)).toBe(1)
    symlinkSync('v2', join(folder, '..tmp'))
    renameSync(join(folder, '..tmp'), join(folder, '..data'))
    await until('the change was told', async () => policies.length === 1)
    expect(limitOf(source.current)).toBe(2)
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
    expect(source.current.version.sequence).toBe(2)
  })

  it('that is removed is refused, and back again is no change', async () => {
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
    expect(policies.map(({ document }) => document.limits.length)).toEqual([12])
    expect(refusals).toEqual([])
  })

  it('changes with the files that it refers to', async () => {
    const tiers =
      'tiers: { names: [free, pro], default: free, lookup: { file: tiers.yaml, by: user } }'
    writeFileSync(file, policy(1, tiers))
    writeFileSync(join(folder, 'tiers.yaml'), 'ada: pro\n')
    mkdirSync(join(folder, 'keys'))
    writeFileSync(join(folder, 'keys', 'api-keys.yaml'), '[]\n')
    const { source, policies, refusals } = await open(['keys/api-keys.yaml'])
    expect([...(source.current.tierTable ?? [])]).toEqual([['ada', 'pro']])
    writeFileSync(join(folder, 'tiers.yaml'), 'ada: pro\neve: pro\n')
    await until('the tiers were told', async () => policies.length === 1)
    expect(source.current.tierTable?.get('eve')).toBe('pro')
    writeFileSync(join(folder, 'keys', 'api-keys.yaml'), '[{}]\n')
    await until('the keys were told', async () => policies.length === 2)
    writeFileSync(join(folder, 'tiers.yaml'), 'ada: gold\n')
    await until('the refusal was told', async () => refusals.length === 1)
    expect(refusals).toEqual(['tiers.yaml:1:6 ada: "gold" is not allowed; allowed: free, pro'])
    writeFileSync(join(folder, 'tiers.yaml'), 'ada: free\n')
    await until('the mended tiers were told', async () => policies.length === 3)
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

  it('lets others work while another thread reads a long one', async () => {
    const overrides = Array.from(
      { length: 2_000 },
      (_, at) => `  - { limit: a, key: key_${at}, set: { limit: ${at} } }\n`,
    )
    const head = 'limits: [{ name: a, key: ip, limit: 1, per: 1s }]\noverrides:\n'
    writeFileSync(file, head + overrides.join(''))
    let turns = 0
    const counter = setInterval(() => turns++, 1)
    const loaded = await loadPolicy(file, () => [], readAside)
    clearInterval(counter)
    expect(loaded.ok && loaded.document.overrides.length).toBe(2_000)
    expect(turns).toBeGreaterThan(10)
    writeFileSync(file, `${head + overrides.join('')}  - { limit: b, key: x, set: { limit: 1 } }\n`)
    expect(await loadPolicy(file, () => [], readAside)).toMatchObject({
      ok: false,
      problems: [{ line: 2_003, path: 'overrides[2000].limit' }],
    })
  })

  it('says the same in another thread, of tiers as well', async () => {
    const tiers = 'tiers: { names: [free], default: free, lookup: { file: t.yaml, by: user } }'
    writeFileSync(file, policy(1, tiers))
    for (const table of ['ada: free\n', 'ada: gold\n', '[', '- x\n']) {
      writeFileSync(join(folder, 't.yaml'), table)
      expect(await loadPolicy(file, () => [], readAside)).toEqual(await loadPolicy(file))
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
