/** The prober through all doors of a real service. */

import { expect, test } from 'vitest'
import { runCli } from '../../../packages/server/src/cli/cli.ts'
import { probeLimit } from './busy-service.ts'
import { type MeteredService, startMeteredService, TOKEN } from './metered-service.ts'

async function probe(service: MeteredService, ...more: readonly string[]) {
  let text = ''
  const write = (part: string) => {
    text += part
  }
  const doors = [
    ...['--gateway', `${service.service.gateway?.url}/tidegate-probe`],
    ...['--decision-api', service.apiUrl, '--rls', service.rlsUrl],
  ]
  const environment = { TIDEGATE_PROBE_TOKEN: TOKEN }
  const code = await runCli(['probe', ...doors, ...more], {
    ...{ environment, stdout: write, stderr: write },
  })
  return { code, text }
}

test('a limit of 10 admits exactly 10 through each door', async () => {
  const service = await startMeteredService({ limits: [probeLimit] })
  const line = (door: string) => `${door}: 10 of 30 admitted, expected 10\n`
  const text = ['gateway', 'decision_api', 'rls'].map(line).join('')
  expect(await probe(service)).toEqual({ code: 0, text })
  expect(await probe(service)).toEqual({ code: 0, text })
})

test('a limit that admits too many is found', async () => {
  const service = await startMeteredService({ limits: [{ ...probeLimit, limit: 12 }] })
  const { code, text } = await probe(service)
  expect(code).toBe(1)
  expect(text.match(/12 of 30 admitted/g)).toHaveLength(3)
})

test('denials by other limits, and a missing limit, are not its decisions', async () => {
  const other = { name: 'other', key: 'everyone', limit: 5, per: '1h' }
  const service = await startMeteredService({ limits: [other] })
  const { code, text } = await probe(service)
  expect(code).toBe(1)
  expect(text).toMatch(/gateway: \d+ of 30 admitted, expected 10, \d+ without a decision/)
  expect(text).toContain('decision_api: 0 of 30 admitted, expected 10, 30 without a decision')
})

test('wrong arguments are named', async () => {
  const run = async (...args: readonly string[]) => {
    let text = ''
    const stderr = (part: string) => {
      text += part
    }
    const code = await runCli(['probe', ...args], { environment: {}, stdout: stderr, stderr })
    return [code, text.split('\n')[0]]
  }
  expect(await run()).toEqual([2, expect.stringContaining('name a door')])
  expect(await run('--gateway', 'x')).toEqual([2, expect.stringContaining('--gateway x')])
  expect(await run('--decision-api', 'http://a')).toEqual([1, expect.stringContaining('token')])
  const listening = ['--gateway', 'http://a', '--listen', '70000']
  expect(await run(...listening)).toEqual([2, expect.stringContaining('--listen 70000')])
})
