/** A real Prometheus for tests, in a folder of its own, with rules and targets of a test. */

import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { stringify } from 'yaml'
import { findProgram } from '../find-program.ts'
import { freePort, LOOPBACK } from '../ports.ts'
import { makeFolder, removeFolder, ServerProcess } from '../server-process.ts'
import { until } from '../until.ts'

/** A Prometheus elsewhere, such as a newer version; promtool is beside it or on the PATH. */
const VARIABLE = 'TIDEGATE_PROMETHEUS'

/** Windows of the tests have 5 seconds. */
const SCRAPE = '1s'

export interface PrometheusOptions {
  /** The addresses of the targets of each job, such as `127.0.0.1:8083`. */
  readonly jobs: Readonly<Record<string, readonly string[]>>
  /** The texts of the rule files. */
  readonly rules?: readonly string[]
}

export interface Sample {
  readonly metric: Readonly<Record<string, string>>
  readonly value: number
}

export interface FiringAlert {
  readonly labels: Readonly<Record<string, string>>
  readonly annotations: Readonly<Record<string, string>>
}

export interface Prometheus {
  /** The value of each series now. Throws if the query is not valid. */
  query(expr: string): Promise<readonly Sample[]>
  /** True if the query has at least one value in the last minute. */
  hasData(expr: string): Promise<boolean>
  firing(): Promise<readonly FiringAlert[]>
  /** Rules that could not be evaluated, with the error. */
  failedRules(): Promise<readonly string[]>
  stop(): Promise<void>
}

/** For `describe.skipIf`, with a line that gives the reason. */
export function isPrometheusMissing(): boolean {
  const isMissing = [prometheusBinary(), promtoolBinary()].includes(undefined)
  if (isMissing) console.info('Prometheus was not found (apt-get install prometheus): skipped')
  return isMissing
}

function prometheusBinary(): string | undefined {
  return findProgram([process.env[VARIABLE] ?? 'prometheus'])
}

function promtoolBinary(): string | undefined {
  const beside = process.env[VARIABLE]?.replace(/prometheus$/, 'promtool')
  return findProgram([...(beside === undefined ? [] : [beside]), 'promtool'])
}

/** Returns the output of promtool; throws with it if promtool fails. */
export async function promtool(args: readonly string[], input = ''): Promise<string> {
  const running = promisify(execFile)(promtoolBinary() ?? 'promtool', args)
  running.child.stdin?.end(input)
  const { stdout, stderr } = await running
  return stdout + stderr
}

export async function startPrometheus(options: PrometheusOptions): Promise<Prometheus> {
  const folder = makeFolder()
  const port = await freePort()
  const file = join(folder, 'prometheus.yaml')
  writeFileSync(file, configOf(options, folder))
  const server = new ServerProcess(
    prometheusBinary() ?? 'prometheus',
    [
      `--config.file=${file}`,
      `--storage.tsdb.path=${join(folder, 'data')}`,
      `--web.listen-address=${LOOPBACK}:${port}`,
      '--log.level=warn',
    ],
    folder,
  )
  const url = `http://${LOOPBACK}:${port}`
  const get = async (path: string) => {
    const response = await fetch(`${url}/api/v1/${path}`)
    const { data, error } = (await response.json()) as { data: unknown; error?: string }
    if (error !== undefined) throw new Error(`${error}: ${decodeURIComponent(path)}`)
    return data
  }
  await until('Prometheus is ready', async () => {
    if (server.hasEnded) throw new Error(server.output)
    return (await fetch(`${url}/-/ready`)).ok
  })
  return {
    ...queries(get),
    async stop() {
      await server.end()
      removeFolder(folder)
    },
  }
}

type Get = (path: string) => Promise<unknown>

function queries(get: Get): Omit<Prometheus, 'stop'> {
  return {
    async query(expr) {
      const { result } = (await get(`query?query=${encodeURIComponent(expr)}`)) as {
        result: { metric: Record<string, string>; value: [number, string] }[]
      }
      return result.map(({ metric, value }) => ({ metric, value: Number(value[1]) }))
    },
    async hasData(expr) {
      const end = Date.now() / 1_000
      const range = `start=${end - 60}&end=${end}&step=1`
      const { result } = (await get(`query_range?query=${encodeURIComponent(expr)}&${range}`)) as {
        result: { values: [number, string][] }[]
      }
      return result.some(({ values }) => values.some(([, value]) => value !== 'NaN'))
    },
    async firing() {
      const { alerts } = (await get('alerts')) as {
        alerts: (FiringAlert & { state: string })[]
      }
      return alerts.filter(({ state }) => state === 'firing')
    },
    async failedRules() {
      const { groups } = (await get('rules')) as {
        groups: { rules: { name: string; lastError?: string }[] }[]
      }
      return groups.flatMap(({ rules }) =>
        rules.filter(({ lastError = '' }) => lastError !== '').map((rule) => JSON.stringify(rule)),
      )
    },
  }
}

function configOf({ jobs, rules = [] }: PrometheusOptions, folder: string): string {
  const files = rules.map((text, at) => {
    const file = join(folder, `rules-${at}.yaml`)
    writeFileSync(file, text)
    return file
  })
  return stringify({
    global: { scrape_interval: SCRAPE, scrape_timeout: SCRAPE, evaluation_interval: SCRAPE },
    rule_files: files,
    scrape_configs: Object.entries(jobs).map(([job, targets]) => ({
      job_name: job,
      static_configs: [{ targets }],
    })),
  })
}
