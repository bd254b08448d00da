/**
 * Real faults make the alerts fire in a real Prometheus. Its rules are those of deploy/prometheus,
 * with a second for each minute.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import { alerts } from '../../../tools/monitoring/rules.ts'
import { isEtcdMissing } from '../../support/servers/etcd/etcd.ts'
import {
  isPrometheusMissing,
  type Prometheus,
  startPrometheus,
} from '../../support/servers/prometheus/prometheus.ts'
import { until } from '../../support/servers/until.ts'
import {
  deadTargets,
  defective,
  endingNode,
  etcdAway,
  type FaultyService,
  flooded,
  healthy,
  hungWorker,
  killedStore,
  lostRegion,
  missingNode,
  operated,
  overloaded,
  refusingStore,
  slowStore,
} from './faulty-services.ts'
import { quickRuleFiles } from './quick-rules.ts'

/** About a machine that is busy with this test. */
const ofMachine = ['TidegateEventLoopLag', 'TidegateLatencyBurnFast', 'TidegateLatencyBurnSlow']

/** How long ago the day before is. Leaves 30 s for a machine that is busy. */
const DAY_SECONDS = 40

/** Rules are evaluated twice a second. Looks cost time that the services need. */
const LOOK_EVERY_MS = 250

/** The event loop is kept busy for most of the time. */
const BUSY_MS = 120
const IDLE_MS = 30

// It needs Prometheus and etcd, which not every machine has.
describe.skipIf(isPrometheusMissing() || isEtcdMissing())('with real faults', () => {
  test('every alert fires, and none about a healthy node', async () => {
    const [first, ...others] = await Promise.all([
      killedStore(),
      ...[slowStore(), refusingStore(), defective(), flooded(), operated(), deadTargets()],
      ...[etcdAway(), overloaded(), hungWorker(), lostRegion(), missingNode(), healthy()],
    ])
    const services = [...first, ...others]
    const prometheus = await startPrometheus({
      jobs: Object.fromEntries(services.map(({ job, targets }) => [job, targets])),
      rules: quickRuleFiles(),
    })
    onTestFinished(() => prometheus.stop())
    const stopLoad = keepLoad(services)
    onTestFinished(stopLoad)
    await until('all targets but one were scraped twice', async () => {
      const seen = await prometheus.query('count_over_time(up[1m]) >= 2 and max_over_time(up[1m])')
      return seen.length >= services.length
    })
    const expected = services.flatMap(({ job, alerts: names }) =>
      names.map((name) => `Tidegate${name} ${job}`),
    )
    // At once: an alert about a fault that is over fires for seconds only.
    await Promise.all([
      untilFiring(prometheus, [...expected, 'TidegateWatchdog']),
      ...services.map(({ fail }) => fail?.()),
    ])
    const firing = await prometheus.firing()
    for (const { annotations } of firing) expect(annotations.description).not.toMatch(/<|%!/)
    await untilHealthy(prometheus)
    await stopLoad()
    await whileBusy(() => untilFiring(prometheus, ['TidegateEventLoopLag tidegate-healthy']))
    expect(await prometheus.failedRules()).toEqual([])
    const tested = new Set(expected.map((one) => one.split(' ')[0]))
    const apart = ['TidegateWatchdog', 'TidegateAbsent', 'TidegateFewerNodes', ...ofMachine]
    const untested = alerts
      .map(({ name }) => name)
      .filter((name) => !tested.has(name) && !apart.includes(name))
    expect(untested).toEqual([])
  })

  test('the absence of all nodes fires', async () => {
    const { job, targets } = await missingNode()
    const prometheus = await startPrometheus({ jobs: { [job]: targets }, rules: quickRuleFiles() })
    onTestFinished(() => prometheus.stop())
    await untilFiring(prometheus, ['TidegateAbsent', `TidegateNodeDown ${job}`])
  })

  test('fewer nodes than a day before fire', async () => {
    const { job, targets, alerts: names, fail } = await endingNode()
    const rules = quickRuleFiles(`${DAY_SECONDS}s`)
    const prometheus = await startPrometheus({ jobs: { [job]: targets }, rules })
    onTestFinished(() => prometheus.stop())
    // The alert can fire for as long as both nodes were there, less the 10 s of its `for`.
    await until('both nodes have been there for a day', async () => {
      const series = `tidegate_build_info{job="${job}"}`
      const nodes = await prometheus.query(`${series} and ${series} offset ${DAY_SECONDS}s`)
      return nodes.length === targets.length
    })
    const firing = await prometheus.firing()
    expect(firing.filter(({ labels }) => labels.alertname === 'TidegateFewerNodes')).toEqual([])
    await fail?.()
    await untilFiring(
      prometheus,
      names.map((name) => `Tidegate${name} ${job}`),
    )
  })
})

/**
 * A process that stalls misses scrapes for a second or two, which are minutes here: alerts that are
 * about them end by themselves, wrong ones do not.
 */
async function untilHealthy(prometheus: Prometheus): Promise<void> {
  let names: readonly string[] = []
  await until('no alert is about the healthy node', async () => {
    await sleep(LOOK_EVERY_MS)
    const firing = await prometheus.firing()
    const own = firing.filter(({ labels }) => labels.job === 'tidegate-healthy')
    names = own.map(({ labels }) => labels.alertname ?? '')
    return names.every((name) => ofMachine.includes(name))
  }).catch((error) => {
    throw new Error(`about a healthy node: ${names.join(', ')}`, { cause: error })
  })
}

async function untilFiring(prometheus: Prometheus, expected: readonly string[]): Promise<void> {
  let missing = expected
  await until('the alerts fire', async () => {
    await sleep(LOOK_EVERY_MS)
    const firing = await prometheus.firing()
    const found = new Set(
      firing.flatMap(({ labels: { alertname = '', job = '' } }) => [
        alertname,
        `${alertname} ${job}`,
      ]),
    )
    missing = missing.filter((one) => !found.has(one))
    return missing.length === 0
  }).catch((error) => {
    throw new Error(`did not fire: ${missing.join(', ')}`, { cause: error })
  })
}

/** Sends requests to all services until the result is called. */
function keepLoad(services: readonly FaultyService[]): () => Promise<void> {
  let isOver = false
  const loads = services.map(async ({ load }) => {
    while (load !== undefined && !isOver) {
      // A service with a fault may refuse a connection.
      await load().catch(() => undefined)
      await sleep(IDLE_MS)
    }
  })
  return async () => {
    isOver = true
    await Promise.all(loads)
  }
}

/** Blocks the event loop of this process, and so those of its services, again and again. */
async function whileBusy(wait: () => Promise<void>): Promise<void> {
  const cell = new Int32Array(new SharedArrayBuffer(4))
  const timer = setInterval(() => Atomics.wait(cell, 0, 0, BUSY_MS), IDLE_MS)
  try {
    await wait()
  } finally {
    clearInterval(timer)
  }
}
