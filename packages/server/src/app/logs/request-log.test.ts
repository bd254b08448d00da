import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { secretReader } from '../../config/secrets.ts'
import type { ServiceEvent } from '../../observability/events.ts'
import { parsePolicy } from '../../policy/read-policy.ts'
import { RequestLog } from './request-log.ts'

const SECRET = 'a-secret-of-at-least-32-characters-0'
const ADDRESS = '203.0.113.7'

function place(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tidegate-request-log-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

function open(policy: object, environment: Record<string, string> = {}, folder = '/') {
  const parsed = parsePolicy({ limits: [], ...policy })
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
  const events: ServiceEvent[] = []
  const log = new RequestLog({
    document: parsed.document,
    ...{ folder, environment, isWorker: false, hasGateway: true, stdout: undefined },
    readSecret: secretReader(environment, folder),
    emit: (event) => void events.push(event),
    level: 'info',
    policyVersion: () => '1',
  })
  onTestFinished(() => log.close())
  return { log, events }
}

test('digests have the secret of the policy, of the admin API, or one of the process', () => {
  const own = { digests: { secret: { env: 'SECRET' } } }
  const admin = { admin: { listen: { port: 0 }, token: { env: 'SECRET' } } }
  const digestOf = (policy: object, environment = {}) =>
    open(policy, environment).log.digest(ADDRESS)
  for (const policy of [own, admin]) {
    const [one, again] = [1, 2].map(() => digestOf(policy, { SECRET }))
    expect(one).toBe(again)
    expect(one).not.toBe(digestOf(policy, { SECRET: `${SECRET}1` }))
  }
  expect(digestOf({})).not.toBe(digestOf({}))
  const shared = { TIDEGATE_WORKER_DIGEST_SECRET: SECRET }
  expect(digestOf({}, shared)).toBe(digestOf({}, shared))
})

test('a short secret of digests is refused', () => {
  const policy = { digests: { secret: { env: 'SECRET' } } }
  expect(() => open(policy, { SECRET: 'short' })).toThrow('digests.secret: the secret is too short')
})

test('a file that cannot be opened is an error that names the setting', () => {
  const policy = { gateway: { accessLog: { file: 'absent/access.log' } } }
  expect(() => open(policy, {}, place())).toThrow(
    'gateway.accessLog.file absent/access.log: cannot be opened (ENOENT)',
  )
})

test('a file that cannot be opened again stays in use, and is reported', async () => {
  const folder = place()
  const { log, events } = open({ gateway: { accessLog: { file: 'access.log' } } }, {}, folder)
  const kept = join(folder, 'access.log')
  expect(readFileSync(kept, 'utf8')).toBe('')
  rmSync(folder, { recursive: true })
  log.reopen()
  expect(events).toMatchObject([
    { type: 'log-reopened', log: 'access', problem: expect.stringContaining('ENOENT') },
  ])
})
