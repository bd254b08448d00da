/** The process and its event loop, under the names that other programs use for them. */

import { monitorEventLoopDelay } from 'node:perf_hooks'
import { gauge, type MetricFamily } from 'tidegate/metrics'

/** The default of Node; a timer in native code that costs no measurable time. */
const RESOLUTION_MS = 10

const NANOSECONDS = 1e9

/** Not as a label `quantile`, which is for summaries only. */
const percentiles = [50, 99, 100] as const

export interface ProcessMetrics {
  read(): readonly MetricFamily[]
  /** Ends the measurement of the event loop. */
  close(): void
}

export function processMetrics(version: string): ProcessMetrics {
  const delays = monitorEventLoopDelay({ resolution: RESOLUTION_MS })
  delays.enable()
  const startSeconds = (performance.timeOrigin || Date.now()) / 1_000
  return {
    close: () => void delays.disable(),
    read() {
      const { user, system } = process.cpuUsage()
      const { rss, heapUsed } = process.memoryUsage()
      const { active, idle } = performance.eventLoopUtilization()
      const lag = percentiles.map((percentile) => ({
        labels: { percentile: String(percentile) },
        value: lagSeconds(delays.count === 0 ? 0 : delays.percentile(percentile)),
      }))
      delays.reset()
      const labels = { version, node: process.version }
      return [
        counter('process_cpu_seconds_total', 'Time of processors.', (user + system) / 1e6),
        gauge('process_resident_memory_bytes', 'Resident memory.', rss),
        gauge('process_start_time_seconds', 'Start, in seconds since 1970.', startSeconds),
        gauge('nodejs_heap_used_bytes', 'Memory of JavaScript objects.', heapUsed),
        gauge('nodejs_eventloop_lag_seconds', 'Lag since the page before.', lag),
        counter('nodejs_eventloop_active_seconds_total', 'Time at work.', active / 1_000),
        counter('nodejs_eventloop_idle_seconds_total', 'Time without work.', idle / 1_000),
        gauge('tidegate_build_info', 'Versions of Tidegate and Node.js.', [{ labels, value: 1 }]),
      ]
    },
  }
}

/** A sample is the time between two ticks, which are `RESOLUTION_MS` apart without any lag. */
function lagSeconds(nanoseconds: number): number {
  return Math.max(0, nanoseconds / NANOSECONDS - RESOLUTION_MS / 1_000)
}

function counter(name: string, help: string, value: number): MetricFamily {
  return { name, help, type: 'counter', samples: [{ labels: {}, value }] }
}
