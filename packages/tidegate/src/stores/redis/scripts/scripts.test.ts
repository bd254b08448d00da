import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { generateScripts } from './generate-scripts.ts'
import * as generated from './scripts.generated.ts'

const folder = new URL('./lua/', import.meta.url)

function luaFiles(place: URL) {
  const names = readdirSync(place).filter((name) => name.endsWith('.lua'))
  return names.map((name) => {
    const text = readFileSync(new URL(name, place), 'utf8')
    return { name, text, header: /^--\[\[\n([\s\S]*?)\n\]\]\n/.exec(text)?.[1] ?? '' }
  })
}

const entries = luaFiles(folder)
const includes = luaFiles(new URL('includes/', folder))
const files = [...entries, ...includes]

const included = new Set(
  files.flatMap(({ text }) => [...text.matchAll(/^-- @include (\S+)$/gm)].map(([, name]) => name)),
)

const scripts = Object.entries(generated)

/** What the server's administrator has to allow, besides EVAL and EVALSHA. */
const commands = [
  ...['DEL', 'GET', 'LINDEX', 'LLEN', 'LRANGE', 'LTRIM', 'MGET', 'PEXPIRE', 'PTTL', 'RPOP'],
  ...['RPUSH', 'SET', 'TIME', 'ZADD', 'ZCARD', 'ZRANGE', 'ZRANK', 'ZREM', 'ZREMRANGEBYSCORE'],
  'ZSCORE',
]

describe('the generated module', () => {
  it('is what generate-scripts.ts makes of the Lua files', () => {
    const module = new URL('./scripts.generated.ts', import.meta.url)
    expect(readFileSync(module, 'utf8')).toBe(generateScripts())
  })

  it('has every file outside of includes/, and every file in there is included', () => {
    const names = scripts.map(([name]) => name)
    expect(names.sort()).toEqual(entries.map(({ name }) => constantOf(name)).sort())
    expect([...included].sort()).toEqual(
      includes.map(({ name }) => name.replace('.lua', '')).sort(),
    )
  })

  it.each(scripts)('has the SHA-1 of the text of %s', (_, { text, sha1 }) => {
    expect(sha1).toBe(createHash('sha1').update(text).digest('hex'))
  })

  it.each(scripts)('has no comment and no include left in %s', (_, { text }) => {
    expect(text).not.toMatch(/--/)
  })
})

describe('the Lua files', () => {
  it.each(files)('$name begins with a header that says what it is', ({ header }) => {
    expect(header).toMatch(/^ {2}\S.*[.:,\w]$/m)
    for (const line of header.split('\n')) expect(line).toMatch(/^$|^ {2}/)
  })

  it.each(entries)('$name tells its keys, arguments, reply and expiry, in this order', (file) => {
    const fields = [...file.header.matchAll(/^ {2}([A-Z]\w+) {2,}\S/gm)].map(([, field]) => field)
    expect(fields).toEqual(['KEYS', 'ARGV', 'Returns', 'Expiry'])
  })

  it.each(files)('$name has lines of at most 100 columns', ({ text }) => {
    for (const line of text.split('\n')) expect(line.length, line).toBeLessThanOrEqual(100)
  })
})

describe('the scripts', () => {
  it('use the known commands and no other', () => {
    const used = new Set(scripts.flatMap(([, { text }]) => commandsOf(text)))
    expect([...used].sort()).toEqual(commands)
  })

  it.each(scripts)('%s names every command where it calls it', (_, { text }) => {
    expect(commandsOf(text)).toHaveLength([...text.matchAll(/call\s*[({'"]/g)].length)
  })

  it.each(scripts)('%s makes no global', (_, { text }) => {
    const functions = [...text.matchAll(/^function (\w+)([.(])/gm)]
    for (const [, name, next] of functions) {
      expect(next, `function ${name}`).toBe('.')
      expect(text).toMatch(new RegExp(`^local ${name} = `, 'm'))
    }
  })
})

function constantOf(file: string): string {
  const name = file.replace('.lua', '').replace(/-(\w)/g, (_, letter) => letter.toUpperCase())
  return `${name}Script`
}

function commandsOf(text: string): string[] {
  return [...text.matchAll(/\bp?call\('([A-Z]+)'/g)].map(([, command]) => command ?? '')
}
