/**
 * The way of a request as ARCHITECTURE.md lists it: the number of stations, and that each of them
 * can hand the request to the next one, which it imports itself or by a contract.
 */

import { posix } from 'node:path'
import { describe, expect, test } from 'vitest'
import { librarySource } from './places.ts'
import { isThere, readText, sourceFile } from './source-file.ts'

/** As few as the architecture allows; a reader has to follow all of them. */
const STATIONS_MAX = 8

/** Interfaces that one station calls and the next one implements. */
const contracts = ['limiter/limiter.ts', 'stores/store.ts']

/** The first path of each numbered entry of the section. */
function stationsOf(section: string): string[] {
  const [, text = ''] = readText('ARCHITECTURE.md').split(`\n## ${section}\n`)
  const entries = text.split('\n## ')[0]?.match(/^\d+\. `[^`]+`/gm) ?? []
  return entries.map((entry) => entry.split('`')[1] as string)
}

function importsOf(station: string): string[] {
  const path = librarySource + station
  const imports = sourceFile(path, readText(path)).syntax?.imports ?? []
  return imports.flatMap(({ target }) => target?.slice(librarySource.length) ?? [])
}

/** True if the station imports the next one, or both import a contract between them. */
function leadsTo(station: string, next: string): boolean {
  const imports = importsOf(station)
  if (imports.includes(next)) return true
  const shared = contracts.filter((contract) => importsOf(next).includes(contract))
  return shared.some((contract) => imports.includes(contract))
}

describe('the way of a request', () => {
  const stations = stationsOf('The way of a request')

  test(`has at most ${STATIONS_MAX} stations, from a middleware to the client of Redis`, () => {
    expect(stations[0]).toMatch(/^middleware\//)
    expect(stations.at(-1)).toBe('stores/redis/client.ts')
    expect(stations.length).toBeLessThanOrEqual(STATIONS_MAX)
  })

  test.each(stations.slice(1).map((next, at) => [stations[at] as string, next]))(
    'leads from %s to %s',
    (station, next) => {
      expect(isThere(librarySource + next)).toBe(true)
      expect(leadsTo(station, next)).toBe(true)
    },
  )

  test('enters the pipeline to Redis by one file', () => {
    const folder = 'stores/redis/pipeline/'
    const outside = ['redis-store.ts', 'client.ts', 'redis-key.ts', 'server-time.ts']
    const entered = outside.flatMap((file) => importsOf(`stores/redis/${file}`))
    const inside = entered.filter((path) => path.startsWith(folder))
    expect([...new Set(inside)].map((path) => posix.basename(path))).toEqual(['pipeline.ts'])
  })

  test('ends where a contract is missing', () => {
    expect(leadsTo('middleware/express.ts', 'stores/redis/redis-store.ts')).toBe(false)
  })
})
