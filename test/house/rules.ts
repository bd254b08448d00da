/**
 * The rules of the tidy test. Formatting, lint and types are left to the tools that check them, and
 * the documents to docs.test.ts. Every rule has an example that breaks it, so that a rule that
 * stopped finding anything is noticed.
 */

import { posix } from 'node:path'
import { crowdedFolder, FOLDER_FILES_MAX } from './folder-size.ts'
import { importCycle } from './import-cycle.ts'
import { languageRules } from './language-rules.ts'
import { wrongImports } from './layers.ts'
import { isLibraryFile, isTestFile, librarySource } from './places.ts'
import type { Rule, Violation } from './rule.ts'
import { readText, type SourceFile, type Use } from './source-file.ts'

const LINE_COLUMNS_MAX = 100
const FUNCTION_LINES_MAX = 70
const FILE_LINES_MAX = 400

const bannedUses: readonly { name: RegExp; instead: string; except?: string }[] = [
  { name: /^Date\.now$/, instead: 'now() of the Clock', except: 'clock.ts' },
  { name: /^performance\.now$/, instead: 'now() of the Clock', except: 'clock.ts' },
  { name: /^set(Timeout|Interval)$/, instead: 'schedule() of the Clock', except: 'clock.ts' },
  { name: /^Math\.random$/, instead: 'randomInt of runtime.ts, or a number given by the caller' },
  { name: /^console\./, instead: 'an error or the observer; a library does not print' },
  { name: /^process\.env\b/, instead: 'an option', except: 'runtime.ts' },
]

/** Vitest reads the default export of these files. */
const readByVitest = ['vitest.config.ts']

const bannedFolders = ['types', 'interfaces', 'utils', 'helpers', 'common']

/** In pieces, so that this file does not find itself. */
const unfinished = new RegExp(`\\b(${'TO'}${'DO'}|${'FIX'}${'ME'})\\b`)

/** Folders of one machine, and hosts of package registries and mirrors. */
const notPortable = [
  /(?<![\w.:-])\/(home|Users|root|work)\/[\w.-]+/,
  /\b[A-Z]:\\Users\\/,
  /\bregistry\.[\w-]+\.[a-z]{2,}/,
  /\bnpm\.pkg\.[\w-]+\.[a-z]{2,}/,
]

export const rules: readonly Rule[] = [
  {
    name: 'imports keep the direction of dependencies',
    check: wrongImports,
    broken: { [`${librarySource}algorithms/x.ts`]: `import { systemClock } from '../clock.ts'` },
  },
  {
    name: 'imports make no cycles, also not of types',
    check: importCycle,
    broken: { 'test/a.ts': `import './b.ts'`, 'test/b.ts': `import type { A } from './a.ts'` },
  },
  {
    name: 'the library needs no package: only node: modules, and an entry point its own peer',
    check: ({ path, syntax }) =>
      (isLibraryFile(path) ? (syntax?.imports ?? []) : [])
        .filter(({ from, target }) => target === undefined && !from.startsWith('node:'))
        .filter(({ isTypeOnly }) => !(isTypeOnly && path.includes('/middleware/')))
        .filter(({ from }) => !(from === '@opentelemetry/api' && path.includes('/opentelemetry/')))
        .map(({ line, from }) => ({ line, text: `imports the package ${from}` })),
    broken: { [`${librarySource}middleware/x.ts`]: `import express from 'express'` },
  },
  {
    name: `lines have at most ${LINE_COLUMNS_MAX} columns`,
    check: ({ path, lines }) =>
      !/(\.(tsx?|lua|sql|sh)|^\.ci\/run)$/.test(path) || isGenerated(lines)
        ? []
        : lines.flatMap(tooLongLine),
    broken: { 'test/x.ts': `// ${'x'.repeat(LINE_COLUMNS_MAX)}` },
  },
  {
    name: `functions have at most ${FUNCTION_LINES_MAX} lines`,
    check: ({ syntax }) =>
      (syntax?.functions ?? [])
        .filter(({ lineCount, isSuite }) => lineCount > FUNCTION_LINES_MAX && !isSuite)
        .map(({ line, lineCount }) => ({ line, text: `a function of ${lineCount} lines` })),
    broken: { 'test/x.ts': `function long() {${'}'.padStart(FUNCTION_LINES_MAX + 1, '\n')}` },
  },
  {
    name: `files have at most ${FILE_LINES_MAX} lines, generated ones aside`,
    check: ({ path, lines, syntax }) => {
      const isProgram = syntax !== undefined || path.endsWith('.sh')
      if (!isProgram || lines.length - 1 <= FILE_LINES_MAX) return []
      if (isGenerated(lines)) return []
      return [{ line: lines.length, text: `a file of ${lines.length} lines` }]
    },
    broken: { 'test/x.ts': '\n'.repeat(FILE_LINES_MAX + 1) },
  },
  {
    name: `folders have at most ${FOLDER_FILES_MAX} source files, tests aside`,
    check: crowdedFolder,
    broken: Object.fromEntries(
      Array.from({ length: FOLDER_FILES_MAX + 1 }, (_, at) => [`test/x${at}.ts`, '']),
    ),
  },
  {
    name: 'nothing is typed any',
    check: ({ syntax }) => (syntax?.anyLines ?? []).map((line) => ({ line, text: 'any' })),
    broken: { 'test/x.ts': 'let x: any' },
  },
  {
    name: 'nothing is left unfinished',
    check: ({ lines }) => linesMatching(lines, [unfinished]),
    broken: { 'README.md': `${'TO'}${'DO'}: write it` },
  },
  {
    name: 'no test runs alone',
    check: ({ syntax }) =>
      calls(syntax?.uses)
        .filter(({ name }) => /^(describe|test|it)\b.*\.only$/.test(name))
        .map(({ line, name }) => ({ line, text: name })),
    broken: { 'test/x.test.ts': `test.only('x', () => {})` },
  },
  {
    name: 'a test that is skipped says why, in a comment or an argument',
    check: skippedWithoutReason,
    broken: { 'test/x.test.ts': `\ntest.skip('x', () => {})` },
  },
  {
    name: 'nothing is exported as default, except for vitest',
    check: ({ path, syntax }) =>
      (readByVitest.includes(path) ? [] : (syntax?.defaultExportLines ?? [])).map((line) => ({
        line,
        text: 'a default export',
      })),
    broken: { 'test/x.ts': 'export default 1' },
  },
  {
    name: 'source files are named in kebab-case',
    check: ({ path, syntax }) =>
      syntax === undefined || /^[a-z0-9]+(-[a-z0-9]+)*(\.[a-z]+)+$/.test(posix.basename(path))
        ? []
        : [{ line: 1, text: posix.basename(path) }],
    broken: { [`${librarySource}tokenBucket.ts`]: '' },
  },
  {
    name: 'no folder is named after a feature of the language',
    check: ({ path }) =>
      posix
        .dirname(path)
        .split('/')
        .filter((folder) => bannedFolders.includes(folder))
        .map((folder) => ({ line: 1, text: `a folder named ${folder}` })),
    broken: { 'packages/tidegate/src/utils/x.ts': '' },
  },
  {
    name: 'names have no Impl, Manager, Abstract, or I before an interface',
    check: ({ syntax }) =>
      (syntax?.declarations ?? [])
        .filter(({ name }) => /.(Impl|Manager)$|^Abstract[A-Z]|^I[A-Z][a-z]{2}/.test(name))
        .map(({ line, name }) => ({ line, text: name })),
    broken: { 'test/x.ts': 'interface IStore {}' },
  },
  {
    name: 'every file of the library can be reached from an entry point',
    check: ({ path }, all) =>
      !isLibraryFile(path) || reachable(all).has(path)
        ? []
        : [{ line: 1, text: 'no entry point leads here' }],
    broken: { [`${librarySource}lost.ts`]: '' },
  },
  {
    name: 'the library does not call functions that have a replacement',
    check: ({ path, syntax }) =>
      !isLibraryFile(path) ? [] : (syntax?.uses ?? []).flatMap((use) => bannedUse(path, use)),
    broken: { [`${librarySource}keys.ts`]: `const now = Date.now()` },
  },
  {
    name: 'no file names a folder of one machine or the host of a package registry',
    check: ({ lines }) => linesMatching(lines, notPortable),
    broken: { 'README.md': `see /${'home'}/ada/tidegate` },
  },
  {
    name: 'package-lock.json resolves no package from a fixed host',
    check: ({ path, lines }) =>
      path === 'package-lock.json' ? linesMatching(lines, [/"resolved": "http/]) : [],
    broken: { 'package-lock.json': '"resolved": "https://example.com/x.tgz"' },
  },
  ...languageRules,
]

function tooLongLine(line: string, index: number): Violation[] {
  const columns = [...line].length
  // The formatter keeps an import of one name on one line.
  const isUnbreakable = /^\W*https?:\S+$|^import .* from '\S+'$/.test(line)
  if (columns <= LINE_COLUMNS_MAX || isUnbreakable) return []
  return [{ line: index + 1, text: `${columns} columns` }]
}

function linesMatching(lines: readonly string[], patterns: readonly RegExp[]): Violation[] {
  return lines.flatMap((line, index) =>
    patterns.flatMap((pattern) => {
      const match = pattern.exec(line)
      return match === null ? [] : [{ line: index + 1, text: match[0] }]
    }),
  )
}

function calls(uses: readonly Use[] = []): Use[] {
  return uses.filter(({ argumentCount }) => argumentCount !== undefined)
}

function skippedWithoutReason({ path, syntax }: SourceFile): Violation[] {
  if (syntax === undefined || !isTestFile(path)) return []
  return calls(syntax.uses).flatMap(({ name, line, argumentCount }) => {
    if (!/\.(skip|skipIf|runIf|todo)$/.test(name)) return []
    const isOfRunner = /^(describe|test|it)\b/.test(name)
    const isCommented = syntax.comments.some((comment) => {
      const last = comment.line + comment.text.split('\n').length - 1
      return comment.line <= line && last >= line - 1
    })
    const isReasoned = isOfRunner ? isCommented : argumentCount !== 0
    return isReasoned ? [] : [{ line, text: `${name} without a reason` }]
  })
}

function bannedUse(path: string, { name, line }: Use): Violation[] {
  return bannedUses
    .filter((banned) => banned.name.test(name) && !path.endsWith(`/${banned.except}`))
    .map(({ instead }) => ({ line, text: `${name}: use ${instead}` }))
}

/** The files that are reachable from the exports of package.json. */
function reachable(all: readonly SourceFile[]): ReadonlySet<string> {
  const byPath = new Map(all.map((file) => [file.path, file]))
  const reached = new Set<string>()
  const queue = entryPoints()
  for (let path = queue.pop(); path !== undefined; path = queue.pop()) {
    if (reached.has(path)) continue
    reached.add(path)
    for (const { target } of byPath.get(path)?.syntax?.imports ?? []) {
      if (target !== undefined) queue.push(target)
    }
  }
  return reached
}

function entryPoints(): string[] {
  const compiled = readText('packages/tidegate/package.json').matchAll(/"\.\/dist\/(\S+)\.js"/g)
  return Array.from(compiled, ([, name]) => `${librarySource}${name}.ts`)
}

function isGenerated(lines: readonly string[]): boolean {
  return lines.slice(0, 3).some((line) => line.includes('@generated'))
}
