import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { runCli } from './cli.ts'

const guide = readFileSync(join(import.meta.dirname, '../../../../docs/capacity.md'), 'utf8')

/** An option of Node that docs/capacity.md mentions. */
const FLAG_OF_NODE = '--max-semi-space-size'

async function run(args: readonly string[]) {
  let [out, err] = ['', '']
  const code = await runCli(['plan', ...args], {
    environment: {},
    stdout: (text) => {
      out += text
    },
    stderr: (text) => {
      err += text
    },
  })
  return { code, out, err }
}

describe('tidegate plan', () => {
  test('prints gateways and shards for three loads by default', async () => {
    const { code, out, err } = await run([])
    expect({ code, err }).toEqual({ code: 0, err: '' })
    expect(out).toMatch(/^requests per second +100,000 +1,000,000 +10,000,000\n/)
    for (const row of ['gateway cores', 'Redis shards by CPU', 'Redis shards', 'Assumptions']) {
      expect(out).toMatch(new RegExp(`^${row}`, 'm'))
    }
  })

  test('takes loads one by one, with k and M', async () => {
    const { out } = await run(['--rps', '20k', '--rps', '1.5M', '--keys', '2M'])
    expect(out).toMatch(/^requests per second +20,000 +1,500,000\n/)
    expect(out).toContain('2,000,000 keys per limit')
  })

  test('prints the rule of thumb if it has a figure', async () => {
    const { out } = await run(['--rps', '1M', '--rps', '2M'])
    expect(out.match(/by rule of thumb.*/g)?.map((row) => row.split(/ {2,}/).slice(1))).toEqual([
      ['120', '240'],
      ['12', '-'],
    ])
  })

  test('uses the costs of its options', async () => {
    const args = ['--gateway-rps-per-core', '5k', '--redis-decisions-per-core', '50k']
    const { out } = await run([...args, '--bytes-per-key', '200', '--rps', '1M'])
    expect(out).toContain('a gateway core: 5,000 requests per second')
    expect(out).toContain('on a shard of a Cluster: 20 µs')
    expect(out).toContain('a key: 200 bytes')
    // 200 cores of gateways at 60 %, and 20 cores of Redis.
    expect(out).toMatch(/^gateway cores +334$/m)
    expect(out).toMatch(/^Redis shards by CPU +34$/m)
  })

  test('states the load at which a shard was measured, unless its cost is given', async () => {
    const { out } = await run(['--rps', '1M'])
    expect(out).toContain('measured at 80,000 per second and shard, from 68 processes')
    const own = await run(['--rps', '1M', '--redis-decisions-per-core', '50k'])
    expect(own.out).not.toContain('measured at')
  })

  test('takes both spellings of utilisation', async () => {
    const british = await run(['--json', '--utilisation', '30'])
    expect(JSON.parse(british.out)).toMatchObject({ supply: { utilisation: 0.3 } })
    expect((await run(['--json', '--utilization', '30'])).out).toBe(british.out)
  })

  test('prints JSON', async () => {
    const { out } = await run(['--json', '--rps', '1M', '--hot', '25'])
    expect(JSON.parse(out)).toMatchObject({
      demand: { algorithm: 'tokenBucket', hotShare: 0.25, keys: 10_000_000 },
      supply: { utilisation: 0.6, replicas: 1 },
      capacities: [{ requestsPerSecond: 1_000_000, gatewayCores: expect.any(Number) }],
    })
  })

  test.for([
    [['--rps', '1x'], '--rps 1x: allowed is a whole number from 1 to 1,000,000,000'],
    [['--rps', '0'], '--rps 0: allowed is'],
    [['--rps', '1e6'], '--rps 1e6: allowed is'],
    [['--rps=-5'], '--rps -5: allowed is'],
    [['--rps', '1.5'], '--rps 1.5: allowed is a whole number'],
    [['--keys', ''], '--keys : allowed is'],
    [['--hot', '101'], '--hot 101: allowed is a number from 0 to 100'],
    [['--utilisation', '0'], '--utilisation 0: allowed is a number from 1 to 100'],
    [['--utilization', '0'], '--utilization 0: allowed is a number from 1 to 100'],
    [['--replicas', '6'], '--replicas 6: allowed is a whole number from 0 to 5'],
    [['--limits-per-request', '65'], 'allowed is a whole number from 1 to 64'],
    [['--bytes-per-key', 'many'], '--bytes-per-key many: allowed is'],
    [['--algorithm', 'leaky'], '--algorithm leaky: allowed is one of tokenBucket, slidingWindow'],
    [['--rsp', '5'], "'--rsp'"],
  ] as const)('%j is refused', async ([args, message]) => {
    expect(await run(args)).toMatchObject({
      code: 2,
      out: '',
      err: expect.stringContaining(message),
    })
  })

  test('has every documented option in its help', async () => {
    const { out } = await run(['--help'])
    const flags = [...guide.matchAll(/--[a-z][a-z-]+/g)].map(([flag]) => flag)
    const own = flags.filter((flag) => flag !== '--help' && flag !== FLAG_OF_NODE)
    for (const flag of own) expect(out).toContain(flag)
  })

  test('prints the text that docs/capacity.md shows', async () => {
    const blocks = [...guide.matchAll(/```text\n\$ \.\/run\.sh tidegate plan ?(.*)\n([^`]*)```/g)]
    expect(blocks.length).toBeGreaterThanOrEqual(2)
    for (const [, args = '', shown] of blocks) {
      expect((await run(args.split(' ').filter(Boolean))).out).toBe(shown)
    }
  })
})
