/** Compares the stations of a request in ARCHITECTURE.md with the imports of the gateway. */

import { expect, test } from 'vitest'
import { readText, sourceFile } from './source-file.ts'

const FOLDER = 'packages/server/src/gateway/'
const STATIONS_MAX = 16

const section = readText('ARCHITECTURE.md').split('## The way of a request through the gateway')[1]
const rows = [...(section ?? '').matchAll(/^\| (\d+) \| `([^`]+)` \| [^|]+ \| ([^|]*) \|$/gm)]
const stations = rows.map(([, , path = '', next = '']) => ({ path, next: next.trim() }))

/** The stages that an ordinary request passes without an effect. */
const guards = /^These stages pass it on unchanged:(.*?)\. The/ms.exec(section ?? '')?.[1] ?? ''

function importsOf(path: string): string[] {
  const { syntax } = sourceFile(`${FOLDER}${path}`, readText(`${FOLDER}${path}`))
  return (syntax?.imports ?? []).flatMap(({ target }) => target?.replace(FOLDER, '') ?? [])
}

/** The files of the stages in the order of the pipeline; one that has two stages occurs twice. */
function pipelineFiles(): string[] {
  const text = readText(`${FOLDER}gateway.ts`)
  const list = /pipeline\(\[(.*?)\n {4}\]\)/s.exec(text)?.[1] ?? ''
  const names = [...list.matchAll(/^ {6}(\w+)/gm)].map(([, name]) => name ?? '')
  return names.map((name) => fileOf(name, text))
}

/** The file that a stage is imported from, also if a function of that file returns it. */
function fileOf(name: string, text: string): string {
  const made = new RegExp(`\\{[^}]*\\b${name}\\b[^}]*\\} = (\\w+)\\(`).exec(text)?.[1] ?? name
  const from = new RegExp(`import \\{[^}]*\\b${made}\\b[^}]*\\} from '\\./([^']+)'`).exec(text)?.[1]
  return from ?? `no file for ${name}`
}

test(`the way has at most ${STATIONS_MAX} stations, numbered in order`, () => {
  expect(stations.length).toBeGreaterThan(STATIONS_MAX / 2)
  expect(stations.length).toBeLessThanOrEqual(STATIONS_MAX)
  expect(rows.map(([, number]) => Number(number))).toEqual(stations.map((_, at) => at + 1))
})

test.each(stations.slice(0, -1).map((station, at) => [station.path, at] as const))(
  '%s reaches the next station as it is listed',
  (path, at) => {
    const { next: by = '' } = stations[at] ?? {}
    const { path: next = '' } = stations[at + 1] ?? {}
    if (by === 'import') expect(importsOf(path)).toContain(next)
    else if (by === 'callback') expect(importsOf(next)).toContain(path)
    else if (by === 'stage') expect(importsOf('gateway.ts')).toContain(next)
    else {
      const between = by.replaceAll('`', '')
      expect(importsOf(path)).toContain(between)
      expect(importsOf(between)).toContain(next)
    }
  },
)

test('the stages have the order of the pipeline, and none is left out', () => {
  const inOrder = [...new Set(pipelineFiles())]
  const isGuard = (path: string) => guards.includes(`\`${path}\``)
  const listed = stations.map(({ path }) => path).filter((path) => path.startsWith('stages/'))
  expect(inOrder.filter((path) => !isGuard(path))).toEqual(listed)
})
