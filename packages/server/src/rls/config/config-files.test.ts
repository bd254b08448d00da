import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import { until } from '../../../../../test/support/servers/until.ts'
import { FileSource } from '../../config/file-source.ts'
import { checkRlsConfig } from './check-config.ts'
import { type RlsConfigOptions, rlsConfigReader } from './config-files.ts'
import { defaultConfigOptions } from './rls-config.ts'

const ends: (() => void)[] = []

afterEach(() => {
  for (const end of ends.splice(0).reverse()) end()
})

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'tidegate-rls-'))
  ends.push(() => rmSync(path, { recursive: true, force: true }))
  return path
}

async function follow(directory: string, options: Partial<RlsConfigOptions> = {}) {
  const seen = { loads: 0, errors: [] as string[] }
  const live = new FileSource(rlsConfigReader(directory, { ...defaultConfigOptions, ...options }))
  const listener = {
    onChange: () => void seen.loads++,
    onRefused: (problems: readonly { readonly message: string }[]) =>
      void seen.errors.push(...problems.map(({ message }) => message)),
  }
  const first = await live.read()
  if (first.ok) listener.onChange()
  else listener.onRefused(first.problems)
  live.follow(listener)
  ends.push(() => live.close())
  const domains = () => [...(live.current?.value.domains.keys() ?? [])].sort().join(' ')
  return { seen, domains, live }
}

describe('a configuration directory', () => {
  test('is read with every file in it and below', async () => {
    const path = folder()
    mkdirSync(join(path, 'more'))
    writeFileSync(join(path, 'a.yaml'), 'domain: a')
    writeFileSync(join(path, 'more', 'b.txt'), 'domain: b')
    writeFileSync(join(path, '.c.yaml'), 'domain: c')
    expect((await follow(path)).domains()).toBe('a b c')
    expect((await follow(path, { ignoresDotFiles: true })).domains()).toBe('a b')
  })

  test('is followed when files change, come and go', async () => {
    const path = folder()
    writeFileSync(join(path, 'a.yaml'), 'domain: a')
    const { domains, seen } = await follow(path)
    writeFileSync(join(path, 'b.yaml'), 'domain: b')
    await until('the new file counts', async () => domains() === 'a b')
    rmSync(join(path, 'a.yaml'))
    await until('the old file is gone', async () => domains() === 'b')
    writeFileSync(join(path, 'b.yaml'), 'domain: c')
    await until('the change counts', async () => domains() === 'c')
    expect(seen.errors).toEqual([])
  })

  test('keeps what it had when it becomes wrong, and tells each error once', async () => {
    const path = folder()
    writeFileSync(join(path, 'a.yaml'), 'domain: a')
    const { domains, seen } = await follow(path)
    writeFileSync(join(path, 'b.yaml'), 'domain: a')
    await until('the error is told', async () => seen.errors.length > 0)
    expect(domains()).toBe('a')
    writeFileSync(join(path, 'c.yaml'), 'domain: c')
    await until('the next error is told', async () => seen.errors.length > 1)
    expect(new Set(seen.errors)).toEqual(new Set([`b.yaml: duplicate domain 'a' in config file`]))
    rmSync(join(path, 'b.yaml'))
    await until('it is right again', async () => domains() === 'a c')
    expect(seen.loads).toBe(2)
  })

  test('follows the swap of a link, as Kubernetes changes a ConfigMap', async () => {
    const path = folder()
    const version = (number: number) => {
      mkdirSync(join(path, `..${number}`))
      writeFileSync(join(path, `..${number}`, 'config.yaml'), `domain: v${number}`)
      symlinkSync(`..${number}`, join(path, '..next'))
      renameSync(join(path, '..next'), join(path, '..data'))
    }
    version(1)
    symlinkSync(join('..data', 'config.yaml'), join(path, 'config.yaml'))
    const { domains, seen } = await follow(path)
    expect(domains()).toBe('v1')
    version(2)
    await until('the second version counts', async () => domains() === 'v2')
    version(3)
    await until('the third version counts', async () => domains() === 'v3')
    expect(seen.errors).toEqual([])
  })

  test('follows the swap of a link above it, as goruntime does', async () => {
    const path = folder()
    const version = (number: number) => {
      mkdirSync(join(path, `v${number}`, 'config'), { recursive: true })
      writeFileSync(join(path, `v${number}`, 'config', 'x.yaml'), `domain: v${number}`)
      symlinkSync(`v${number}`, join(path, 'next'))
      renameSync(join(path, 'next'), join(path, 'current'))
    }
    version(1)
    const { domains } = await follow(join(path, 'current', 'config'))
    version(2)
    await until('the second version counts', async () => domains() === 'v2')
  })

  test('that comes only later is taken when it is there', async () => {
    const path = join(folder(), 'later')
    const { domains, seen, live } = await follow(path)
    expect(live.current).toBeUndefined()
    expect(seen.errors).toHaveLength(1)
    mkdirSync(path)
    writeFileSync(join(path, 'a.yaml'), 'domain: a')
    await until('it is there', async () => domains() === 'a')
  })
})

describe('a check of a directory', () => {
  test('tells what is wrong in each file', () => {
    const path = folder()
    writeFileSync(join(path, 'a.yaml'), 'domain: a\nx: y')
    writeFileSync(join(path, 'b.yaml'), 'domain: b\ndescriptors: [{ value: x }]')
    writeFileSync(join(path, 'c.yaml'), 'domain: c')
    writeFileSync(join(path, 'd.yaml'), 'domain: c')
    expect(checkRlsConfig(path).problems).toEqual([
      { file: 'a.yaml', message: `config error, unknown key 'x'` },
      { file: 'b.yaml', message: 'descriptor has empty key' },
      { file: 'd.yaml', message: `duplicate domain 'c' in config file` },
    ])
  })

  test('tells what is allowed and probably not meant', () => {
    const path = folder()
    const text = `
domain: a
descriptors:
  - key: path
    value: /a/*
    unit: day
    rate_limit: { unit: day, replaces: [{ name: missing }], unit: hour }
  - key: path
    value: /a/b*
`
    writeFileSync(join(path, 'a.yaml'), text)
    const { problems, warnings, rules } = checkRlsConfig(path)
    expect({ problems, rules }).toEqual({ problems: [], rules: 1 })
    expect(warnings.map(({ message }) => message)).toEqual([
      `line 7: 'unit' is duplicated`,
      `line 6: 'unit' means nothing in a descriptor`,
      `'a.path_/a/b*' is never reached: '/a/*' comes before it`,
      `replaces 'missing', but no limit has that name`,
    ])
  })

  test('tells that there is nothing', () => {
    const path = folder()
    expect(checkRlsConfig(path).problems).toEqual([
      { file: path, message: 'the directory has no files' },
    ])
    const [problem] = checkRlsConfig(join(path, 'missing')).problems
    expect(problem?.message).toContain('ENOENT')
  })
})
