/**
 * Published documents that were made to be slow or large neither delay the decisions of a node nor
 * fill its memory.
 */

import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, onTestFinished, test } from 'vitest'
import { ControlSource } from '../../../packages/server/src/control/source/control-source.ts'
import { versionKey } from '../../../packages/server/src/control/versions/version-record.ts'
import { type PolicyFiles, policyLoader } from '../../../packages/server/src/policy/load-policy.ts'
import { readRemotePolicy } from '../../../packages/server/src/policy/read-policy.ts'
import { isEtcdMissing, startEtcd } from '../../support/servers/etcd/etcd.ts'
import { makeFolder, removeFolder } from '../../support/servers/server-process.ts'
import { until } from '../../support/servers/until.ts'
import { change, localPolicy, newPrefix, openVersions, policyOf } from './fleet-node.ts'

/**
 * In time of the processor. Turns of the event loop up to this are a collection of garbage, the
 * response of etcd, or time in which the host of a virtual machine has stopped it.
 */
const STALL_MS_MIN = 50

/**
 * The shortest stall of them counts. Noise of the machine makes some attempts longer. A document
 * that is parsed in this thread stalls it for its whole parse time in every attempt.
 */
const ATTEMPTS = 5

/**
 * How much larger the process may become: the worker that parses has 256 MB at most, and texts are
 * copied a few times on their way to it.
 */
const GROWTH_BYTES_MAX = 384 * 1024 ** 2

/** As large as a published document may be, without the first line. */
const TEXT_LENGTH = 256 * 1024 - 100

const LARGE_LENGTH = 10_000_000

const local = { text: policyOf(1), file: 'local' }

const LIMIT = '  - { name: x, key: everyone, limit: 1, per: 1s }\n'

const hostile: readonly (readonly [string, string])[] = [
  [`limits: ${'['.repeat(TEXT_LENGTH)}`, 'nested too deep'],
  ['- '.repeat(TEXT_LENGTH / 2), 'nested too deep'],
  [`limits:\n${LIMIT.repeat(TEXT_LENGTH / LIMIT.length)}`, 'too many parts'],
  [`limits: "${'\\x'.repeat(TEXT_LENGTH / 2)}"`, 'too many backslashes'],
  [`a: &a [${'*a,'.repeat(TEXT_LENGTH / 3)}]`, 'anchors'],
]

// Needs etcd, which run.sh installs.
describe.skipIf(isEtcdMissing())('a node that follows etcd', () => {
  test('refuses hostile documents in words and without a stall', async () => {
    const node = await startFollowing()
    for (const [text, reason] of hostile) {
      const stallsMs: number[] = []
      for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
        await node.useValid()
        stallsMs.push(await node.stallMsOf(reason, () => node.versions.publish(text, change)))
      }
      const hereMs = shortestMs(() => readRemotePolicy(local, { text, file: 'document' }))
      expect(stall(reason, stallsMs, hereMs)).toBeLessThan(Math.max(hereMs, STALL_MS_MIN))
    }
    expect(node.limit()).toBe(5)
    expect(node.growthBytes()).toBeLessThan(GROWTH_BYTES_MAX)
  })

  test('refuses a document of 10 MB, which another program has written', async () => {
    const stallsMs: number[] = []
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const node = await startFollowing()
      await node.putLarge(2, LARGE_LENGTH)
      stallsMs.push(await node.stallMsOf('too large', () => node.pointTo(2)))
      expect(node.limit()).toBe(5)
      expect(node.growthBytes()).toBeLessThan(GROWTH_BYTES_MAX)
    }
    const value = base64(JSON.stringify({ text: LIMIT.repeat(LARGE_LENGTH / LIMIT.length) }))
    const response = JSON.stringify({ value })
    const hereMs = shortestMs(() => Buffer.from(JSON.parse(response).value, 'base64').toString())
    expect(stall('10 MB', stallsMs, hereMs)).toBeLessThan(Math.max(hereMs, STALL_MS_MIN))
  })
})

function stall(what: string, stallsMs: readonly number[], hereMs: number): number {
  const here = `to read it in this thread takes ${Math.round(hereMs)} ms`
  console.info(`${what}: the longest stalls were ${stallsMs.join(', ')} ms, ${here}`)
  return Math.min(...stallsMs)
}

/** The time of the processor that the work takes in this thread. */
function shortestMs(work: () => unknown): number {
  const takenMs = Array.from({ length: ATTEMPTS }, () => {
    const startMs = threadMs()
    work()
    return threadMs() - startMs
  })
  return Math.min(...takenMs)
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64')
}

/**
 * Measures the longest turn of the event loop in time of the processor, to which other processes
 * add nothing. Returns a function that ends it.
 */
function watchTurns(): () => number {
  let [longestMs, usedMs] = [0, threadMs()]
  const look = () => {
    const nowMs = threadMs()
    longestMs = Math.max(longestMs, nowMs - usedMs)
    usedMs = nowMs
  }
  const timer = setInterval(look, 1)
  return () => {
    clearInterval(timer)
    return Math.round(longestMs)
  }
}

/** Before Node 23.9, the time of the whole process, which has the worker as well. */
function threadMs(): number {
  const { user, system } = process.threadCpuUsage?.() ?? process.cpuUsage()
  return (user + system) / 1_000
}

async function startFollowing() {
  const etcd = await startEtcd({ args: ['--max-request-bytes', String(32 * 1024 ** 2)] })
  onTestFinished(() => etcd.stop())
  const options = { endpoints: etcd.endpoints, prefix: newPrefix() }
  const { versions, store, close } = openVersions(options)
  const folder = makeFolder()
  const path = join(folder, 'tidegate.yaml')
  writeFileSync(path, JSON.stringify(localPolicy(options)))
  await versions.publish(policyOf(5), change)
  const load = policyLoader(path)
  const source = new ControlSource<PolicyFiles>({
    store,
    place: { node: 'node' },
    path,
    load: (document, live) =>
      load(document && { text: document.text, file: `version ${document.version}` }, live),
  })
  onTestFinished(async () => {
    source.close()
    await close()
    removeFolder(folder)
  })
  await source.read()
  source.follow({ onChange: () => undefined, onRefused: () => undefined })
  const startBytes = process.memoryUsage.rss()
  let peakBytes = startBytes
  const timer = setInterval(() => {
    peakBytes = Math.max(peakBytes, process.memoryUsage.rss())
  }, 10)
  onTestFinished(() => clearInterval(timer))
  return {
    versions,
    /** How much memory the process took at most since the start of the node. */
    growthBytes() {
      console.info(`the process grew by ${Math.round((peakBytes - startBytes) / 1024 ** 2)} MB`)
      return peakBytes - startBytes
    },
    limit: () => source.current?.value.document.limits[0]?.limit,
    /** Returns the longest stall of this thread until the change is refused for this reason. */
    async stallMsOf(reason: string, write: () => Promise<unknown>) {
      const longestMs = watchTurns()
      await write()
      await until(`it is refused: ${reason}`, () =>
        source.status().problems.some((problem) => problem.includes(reason)),
      )
      return longestMs()
    },
    async useValid() {
      const { version } = await versions.publish(policyOf(5), change)
      await until('it is live', () => source.status().live === version)
    },
    /** Writes a version in another process, because to send it would be a stall of this one. */
    async putLarge(version: number, bytes: number) {
      const key = options.prefix + versionKey(version)
      const args = [`${etcd.endpoints[0]}/v3/kv/put`, key, String(bytes)]
      await promisify(execFile)(process.execPath, ['-e', putLarge, ...args])
    },
    async pointTo(version: number) {
      const value = JSON.stringify({ version, hash: 'sha256:0' })
      await store.transact([], [{ key: 'live/current', value }])
    },
  }
}

const putLarge = `
const [url, key, bytes] = process.argv.slice(1)
const line = ${JSON.stringify(LIMIT)}
const text = 'limits:\\n' + line.repeat(Number(bytes) / line.length)
const base64 = (value) => Buffer.from(value).toString('base64')
const value = base64(JSON.stringify({ text }))
const body = JSON.stringify({ key: base64(key), value })
fetch(url, { method: 'POST', body }).then(async (response) => {
  if (response.status !== 200) throw new Error(await response.text())
})
`
