/**
 * The contract of `./run.sh bench`: which parts run, how failures are handled, where results go.
 */

import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Finding } from '../../bench/harness/part.ts'
import { type BenchPlace, makeBenchPlace, runBench } from './bench-process.ts'

const compared = (name: string, ours: number) => `run.compared({
  name: '${name}', what: 'a row', ours: 'ours', peer: 'peer', unit: 'per second',
  rounds: [{ ours: ${ours}, peer: 2 }],
})`

let place: BenchPlace

beforeEach(() => {
  place = makeBenchPlace()
})

afterEach(() => place.remove())

function findings(file: string): Finding[] {
  return JSON.parse(readFileSync(join(place.root, file), 'utf8'))
}

describe('the parts', () => {
  test('all run without a name, in order, and those named with names', async () => {
    place.part('zeta', compared('zeta', 3))
    place.part('alpha', compared('alpha', 3))
    place.part('redis', compared('redis', 3))
    const all = await runBench(place, [])
    expect(all).toMatchObject({ status: 0 })
    const names = findings('.cache/bench/benchmarks.json').map(({ part }) => part)
    expect(names).toEqual(['redis', 'alpha', 'zeta'])
    await runBench(place, ['zeta', 'redis'])
    const chosen = findings('.cache/bench/benchmarks.json').map(({ part }) => part)
    expect(chosen).toEqual(['redis', 'zeta'])
  })

  test('are listed with their titles, and nothing runs', async () => {
    place.part('alpha', 'console.log("it runs")')
    const { status, stdout } = await runBench(place, ['--list'])
    expect({ status, stdout }).toEqual({ status: 0, stdout: '  alpha  Title of alpha\n' })
  })

  test('of an unknown name are refused with the list', async () => {
    place.part('alpha', '')
    const { status, stderr, stdout } = await runBench(place, ['alpha', 'aplha'])
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' })
    expect(stderr).toBe(
      'bench: there is no benchmark aplha. There are:\n\n  alpha  Title of alpha\n',
    )
  })

  test('know whether the run is quick', async () => {
    place.part('alpha', `run.note('quick: ' + run.isQuick)`)
    expect((await runBench(place, ['--quick'])).stdout).toContain('quick: true')
    expect((await runBench(place, [])).stdout).toContain('quick: false')
  })

  test('do not start with an option that is unknown', async () => {
    place.part('alpha', '')
    const { stderr } = await runBench(place, ['--nonsense'])
    expect(stderr).toMatch(/Unknown option '--nonsense'[\s\S]*Usage: /)
  })
})

describe('a part that throws', () => {
  test('is reported and stopped, the others go on, and the exit code is 1', async () => {
    place.part('alpha', `run.onStop(() => console.log('stopped')); throw new Error('it broke')`)
    place.part('beta', compared('beta', 3))
    const { status, stdout } = await runBench(place, [])
    expect(status).toBe(1)
    expect(stdout).toMatch(/^stopped\nalpha failed: Error: it broke/)
    expect(stdout).toContain('1.50×')
    expect(stdout).toMatch(/\nFailed: alpha\nResults: \S+\/\.cache\/bench\/benchmarks\.md.*\n$/)
    expect(findings('.cache/bench/benchmarks.json').map(({ part }) => part)).toEqual(['beta'])
  })

  test('while it stops something does not keep the rest from being stopped', async () => {
    place.part(
      'alpha',
      `run.onStop(() => console.log('first'))
       run.onStop(() => { throw new Error('stuck') })
       run.onStop(() => console.log('last'))`,
    )
    const { status, stdout, stderr } = await runBench(place, [])
    expect(status).toBe(0)
    expect(stdout).toMatch(/^last\nfirst\n/)
    expect(stderr).toContain('could not be stopped: Error: stuck')
  })
})

test('Ctrl+C stops all children, and the exit code is 130', async () => {
  place.part(
    'alpha',
    `run.onStop(async () => console.log('stopped'))
     console.log('waiting')
     await new Promise((resolve) => setTimeout(resolve, 60_000))`,
  )
  place.part('beta', `console.log('the next runs')`)
  const { status, stdout } = await runBench(place, [], 'waiting')
  expect({ status, stdout }).toEqual({ status: 130, stdout: 'waiting\nstopped\n' })
})

describe('publishing', () => {
  const docs = 'docs/benchmarks.json'

  test('replaces the parts that ran and leaves the others', async () => {
    place.part('alpha', compared('alpha', 3))
    place.part('beta', compared('beta', 3))
    expect(await runBench(place, ['--publish'])).toMatchObject({ status: 0 })
    const [alpha] = findings(docs)
    place.part('beta', compared('beta', 5))
    expect((await runBench(place, ['beta', '--publish'])).stdout).toMatch(/\nPublished: .*\n$/)
    const after = findings(docs)
    expect(after[0]).toEqual(alpha)
    expect(after[1]?.comparisons[0]?.rounds).toEqual([{ ours: 5, peer: 2 }])
    expect(readFileSync(join(place.root, 'docs/benchmarks.md'), 'utf8')).toContain('**2.50×**')
  })

  test('keeps the published findings of a part that fails', async () => {
    place.part('alpha', compared('alpha', 3))
    await runBench(place, ['--publish'])
    const before = findings(docs)
    place.part('alpha', `throw new Error('it broke')`)
    expect(await runBench(place, ['--publish'])).toMatchObject({ status: 1 })
    expect(findings(docs)).toEqual(before)
  })

  test('draws charts and removes those that are no more', async () => {
    const chart = (name: string) => `run.chart({ name: '${name}', title: 'T', kind: 'bars',
      xLabel: '', yLabel: '', series: [{ name: 's', isOurs: true, points: [{ x: 'a', y: 1 }] }] })`
    place.part('alpha', chart('old'))
    await runBench(place, ['--publish'])
    place.part('alpha', chart('new'))
    await runBench(place, ['--publish'])
    const isThere = (name: string) => existsSync(join(place.root, `docs/images/bench-${name}.svg`))
    expect([isThere('old'), isThere('new')]).toEqual([false, true])
  })

  test('is refused to a quick run', async () => {
    place.part('alpha', `console.log('it runs')`)
    const { status, stdout, stderr } = await runBench(place, ['--quick', '--publish'])
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' })
    expect(stderr).toContain('a quick run is too short to be published')
  })
})
