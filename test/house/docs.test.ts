/**
 * The documents are true: every snippet compiles and prints the documented output, every server
 * answers, the reference names every export, pictures are up to date, and links resolve.
 */

import { execFile } from 'node:child_process'
import { join, posix } from 'node:path'
import { promisify } from 'node:util'
import { parseSync } from 'vite'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { errorCodes } from '../../packages/tidegate/src/errors.ts'
import { clientIp } from '../../packages/tidegate/src/http/client-ip.ts'
import { pictures } from '../../tools/plots/plots.ts'
import { MOMENT_MS, mostWithin, PER_MS, run, subjects } from '../../tools/plots/traffic.ts'
import { snippetsOf } from './snippets.ts'
import { compileSnippets, type Ran, removeSnippets, runSnippets } from './snippets-run.ts'
import { isThere, readText, repositoryPaths, repositoryRoot } from './source-file.ts'

/** Enough to build and compile on a slow machine. */
const SLOW_MS = 120_000

/** Snippets that are not run are not tested, so few may be excepted. */
const NOT_RUN_MAX = 2

const files = repositoryPaths()
const documents = files
  .filter((path) => path.endsWith('.md'))
  .map((path) => ({ path, text: readText(path) }))

const snippets = documents.flatMap(({ path, text }) => snippetsOf(path, text))
const programs = snippets.filter(({ notRun }) => notRun === undefined)

describe('the snippets of the documents', () => {
  let complaints = ''
  let results: ReadonlyMap<string, Ran> = new Map()

  beforeAll(async () => {
    await promisify(execFile)(join(repositoryRoot, 'run.sh'), ['build'])
    complaints = await compileSnippets(snippets)
    results = await runSnippets(programs)
  }, SLOW_MS)

  afterAll(removeSnippets)

  test('compile without a complaint', () => {
    expect(complaints).toBe('')
  })

  test('nearly all run', () => {
    expect(programs.length).toBeGreaterThan(30)
    expect(snippets.length - programs.length).toBeLessThanOrEqual(NOT_RUN_MAX)
  })

  test.for(programs)('$place prints what it says', ({ place, expectedLines }) => {
    const { exitCode, stdout, stderr } = ranAt(results, place)
    expect({ stderr, lines: linesOf(stdout), exitCode }).toEqual({
      stderr: '',
      lines: expectedLines,
      exitCode: 0,
    })
  })

  test.for(programs.filter(({ isServer }) => isServer))('$place serves', ({ place }) => {
    const { answers = [], routes = [] } = ranAt(results, place).probe ?? {}
    const statuses = answers.map(({ request, status }) => `${request}: ${status}`)
    expect(answers.length).toBeGreaterThan(0)
    expect(statuses.filter((status) => /: 5\d\d$/.test(status))).toEqual([])
    if (routes.length > 0) expect(statuses.filter((status) => /: 404$/.test(status))).toEqual([])
    const names = answers.flatMap(({ headers }) => Object.keys(headers))
    expect(names).toContainEqual(expect.stringMatching(/^(x-)?ratelimit/))
  })
})

describe('docs/api.md', () => {
  const reference = readText('docs/api.md')
  const manifest: { exports: Record<string, { default?: string }> } = JSON.parse(
    readText('packages/tidegate/package.json'),
  )
  const entries = Object.entries(manifest.exports).flatMap(([path, target]) => {
    const source = target.default?.replace('./dist/', '').replace(/\.js$/, '.ts')
    return source === undefined ? [] : [{ entry: path.replace(/^\./, 'tidegate'), source }]
  })

  test.for(entries)('names everything that $entry exports', ({ entry, source }) => {
    expect(reference).toContain(`\`${entry}\``)
    const names = exportedNames(`packages/tidegate/src/${source}`)
    expect(names.length).toBeGreaterThan(0)
    expect(names.filter((name) => !isNamed(reference, name))).toEqual([])
  })

  test('names every error code', () => {
    expect(errorCodes.filter((code) => !reference.includes(`\`${code}\``))).toEqual([])
  })
})

describe('the pictures', () => {
  test('are those that tools/plots/plots.ts draws', async () => {
    for (const [file, text] of await pictures()) {
      expect(
        readText(`docs/images/${file}`) === text,
        `run: node tools/plots/plots.ts (${file})`,
      ).toBe(true)
    }
  })
})

describe('the tables', () => {
  test.for(subjects)('of algorithms have the numbers of $title', async (subject) => {
    const result = await run(subject)
    const most = [mostWithin(result, MOMENT_MS), mostWithin(result, PER_MS)]
    const row = `| \`${subject.limit.algorithm}\` | ${most.join(' | ')} |`
    expect(readText('docs/choosing-an-algorithm.md')).toContain(row)
  })

  test('of client addresses have the addresses that are found', () => {
    const rows = tableRows(readText('docs/middleware.md'), '| socket peer |')
    expect(rows.length).toBeGreaterThan(3)
    for (const [peer, forwarded = '', trusted = '', client] of rows) {
      const trustProxy = trusted === 'none' ? 0 : JSON.parse(trusted.replaceAll("'", '"'))
      const ipOf = clientIp({ trustProxy }, 'table', {
        remoteAddress: () => peer,
        forwardedFor: () => (forwarded === '' ? undefined : forwarded),
      })
      expect(ipOf('request'), `${peer} ${forwarded} ${trusted}`).toBe(client)
    }
  })
})

describe('the links of', () => {
  test.for(documents)('$path lead to a file and a heading', ({ path, text }) => {
    const dead = linksIn(text).filter((link) => !leadsSomewhere(path, link))
    expect(dead).toEqual([])
  })
})

describe('the files that', () => {
  const paths = files.map((path) => `/${path}`)

  test.for(documents)('$path names are there', ({ text }) => {
    // `x.ts` stands for any file.
    const named = Array.from(
      withoutCode(text).matchAll(/`(?!x\.)(?:\.\/)?([\w./-]+\.(?:ts|sh|md|svg))`/g),
    )
    const lost = named.filter(([, name]) => !paths.some((path) => path.endsWith(`/${name}`)))
    expect(lost.map(([, name]) => name)).toEqual([])
  })
})

function ranAt(results: ReadonlyMap<string, Ran>, place: string): Ran {
  const ran = results.get(place)
  if (ran === undefined) throw new Error(`${place} did not run`)
  return ran
}

function linesOf(text: string): string[] {
  return text === '' ? [] : text.replace(/\n$/, '').split('\n')
}

function exportedNames(path: string): string[] {
  const { module } = parseSync(path, readText(path))
  return module.staticExports.flatMap(({ entries }) =>
    entries.flatMap(({ exportName }) => exportName.name ?? []),
  )
}

/** True if the name occurs in inline code or in a code block. */
function isNamed(text: string, name: string): boolean {
  return new RegExp(`\`[^\`\n]*\\b${name}\\b[^\`\n]*\``).test(text)
}

/** The cells of a table's rows, without the marks of code. */
function tableRows(text: string, heading: string): string[][] {
  const lines = text.slice(text.indexOf(heading)).split('\n').slice(2)
  const rows = lines.slice(
    0,
    lines.findIndex((line) => !line.startsWith('|')),
  )
  return rows.map((row) =>
    row
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.replaceAll('`', '').trim()),
  )
}

function linksIn(text: string): string[] {
  const links = withoutCode(text).matchAll(/\]\(([^)\s]+)[^)]*\)|(?:src|href)="([^"]+)"/g)
  return Array.from(links, ([, link, attribute]) => link ?? attribute ?? '').filter(
    (link) => !/^[a-z]+:/.test(link),
  )
}

function leadsSomewhere(from: string, link: string): boolean {
  const [file = '', anchor] = link.split('#')
  const target = file === '' ? from : posix.join(posix.dirname(from), file)
  if (!isThere(target)) return false
  if (anchor === undefined || !target.endsWith('.md')) return true
  return anchorsOf(readText(target)).includes(anchor)
}

/** The anchors that GitHub gives to headings. */
function anchorsOf(text: string): string[] {
  const seen = new Map<string, number>()
  return Array.from(withoutCode(text).matchAll(/^#{1,6} +(.+)$/gm), ([, heading = '']) => {
    const slug = heading
      .toLowerCase()
      .replaceAll(/[^\p{Letter}\p{Number} _-]/gu, '')
      .replaceAll(' ', '-')
    const count = seen.get(slug) ?? 0
    seen.set(slug, count + 1)
    return count === 0 ? slug : `${slug}-${count}`
  })
}

function withoutCode(text: string): string {
  return text.replaceAll(/^ *```[\s\S]*?^ *```/gm, '')
}
