/** Load from wrk, over a thousand API keys. */

import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'

export interface Load {
  readonly perSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly requests: number
  /** Responses that were neither 2xx nor 3xx. */
  readonly refused: number
}

export interface LoadOptions {
  readonly port: number
  readonly seconds: number
  readonly connections: number
  readonly scriptFile: string
}

/** The number of API keys, which are used in turn. */
export const KEYS = 1_000

const script = `
local keys = {}
local at = 0
init = function()
  for i = 1, ${KEYS} do
    wrk.headers['x-api-key'] = 'key-' .. i
    keys[i] = wrk.format('GET', '/api/resource')
  end
end
request = function()
  at = at % ${KEYS} + 1
  return keys[at]
end
`

export function writeScript(folder: string): string {
  const file = join(folder, 'keys.lua')
  writeFileSync(file, script)
  return file
}

export async function wrk(options: LoadOptions): Promise<Load> {
  const { port, seconds, connections, scriptFile } = options
  const { stdout } = await promisify(execFile)('wrk', [
    ...['-t1', `-c${connections}`, `-d${seconds}s`, '--latency', '-s', scriptFile],
    `http://127.0.0.1:${port}`,
  ])
  if (/Socket errors/.test(stdout)) throw new Error(`wrk met errors:\n${stdout}`)
  return {
    perSecond: Number(/Requests\/sec:\s+([\d.]+)/.exec(stdout)?.[1]),
    p50Ms: milliseconds(/50%\s+([\d.]+\w+)/.exec(stdout)?.[1]),
    p99Ms: milliseconds(/99%\s+([\d.]+\w+)/.exec(stdout)?.[1]),
    requests: Number(/(\d+) requests in/.exec(stdout)?.[1]),
    refused: Number(/Non-2xx or 3xx responses: (\d+)/.exec(stdout)?.[1] ?? 0),
  }
}

function milliseconds(text = ''): number {
  const factors: Readonly<Record<string, number>> = { us: 0.001, ms: 1, s: 1_000 }
  const [, number, unit = ''] = /^([\d.]+)(\w+)$/.exec(text) ?? []
  return Number(number) * (factors[unit] ?? Number.NaN)
}
