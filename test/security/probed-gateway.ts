/** The gateway as a process of its own that reports its memory. */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { onTestFinished } from 'vitest'
import { transportOfTests } from '../e2e/gateway/transport.ts'
import { programFile } from '../support/program.ts'
import { replaceFile } from '../support/replace-file.ts'
import { freePort, LOOPBACK } from '../support/servers/ports.ts'
import { until } from '../support/servers/until.ts'

export interface ProbeAnswer {
  readonly rss: number
  /** In bytes, on the heap and in buffers, after a garbage collection. */
  readonly held: number
  /** Properties that were added to Object.prototype. */
  readonly inherited: readonly string[]
  readonly prototype: readonly string[]
  /** Stalls of the event loop since the last probe, on the axis of `machineNowMs`. */
  readonly heldUp: readonly { readonly fromMs: number; readonly toMs: number }[]
}

export interface ProbedGateway {
  readonly child: ChildProcess
  readonly port: number
  readonly url: string
  /** The output so far. */
  output(): string
  /** Replaces the policy file by exactly this text. */
  write(text: string): void
  /** The policy as it was written at the start, to be changed and written again. */
  readonly policy: object
  status(): Promise<{ policy: { version: string; refused?: string[] } }>
  probe(): Promise<ProbeAnswer>
}

export const MB = 1_024 ** 2

export interface ProbedGatewayOptions {
  readonly environment?: Readonly<Record<string, string>>
  /** Registers the function that kills it. Default: at the end of the test. */
  readonly atEnd?: (stop: () => Promise<void>) => void
}

/** Adds the listener to the policy. */
export async function startProbedGateway(
  given: { readonly gateway?: object; readonly [section: string]: unknown },
  { environment = {}, atEnd = onTestFinished }: ProbedGatewayOptions = {},
): Promise<ProbedGateway> {
  const folder = mkdtempSync(join(tmpdir(), 'tidegate-hardening-'))
  const [port, adminPort, probePort] = [await freePort(), await freePort(), await freePort()]
  const listen = { host: LOOPBACK, port }
  const admin = { listen: { port: adminPort } }
  // On a busy machine the process would shed requests, which is not the subject of these tests.
  const overload = { delay: '1m' }
  const gateway = { listen, overload, transport: transportOfTests(), ...given.gateway }
  const policy = { limits: [], ...given, gateway, admin }
  const file = join(folder, 'tidegate.yaml')
  writeFileSync(file, JSON.stringify(policy))
  const preload = pathToFileURL(join(import.meta.dirname, 'process-probe.ts')).href
  const program = programFile
  const child = spawn(
    process.execPath,
    [
      '--disable-warning=ExperimentalWarning',
      '--import',
      preload,
      program,
      'gateway',
      '--config',
      file,
    ],
    {
      env: { ...process.env, ...environment, TIDEGATE_PROBE_PORT: String(probePort) },
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  )
  atEnd(async () => {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill('SIGKILL')
      await once(child, 'exit')
    }
    rmSync(folder, { recursive: true, force: true })
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (part: Buffer) => {
      output += part.toString()
    })
  }
  const ask = (from: number, path: string) => fetch(`http://${LOOPBACK}:${from}${path}`)
  await until('the gateway is ready', async () => {
    return child.exitCode !== null || (await ask(adminPort, '/ready')).ok
  })
  if (child.exitCode !== null) throw new Error(`the gateway ended: ${output}`)
  return {
    child,
    port,
    url: `http://${LOOPBACK}:${port}`,
    output: () => output,
    write: (text) => replaceFile(file, text),
    policy,
    status: async () => (await ask(adminPort, '/status')).json() as never,
    probe: async () => (await ask(probePort, '/')).json() as never,
  }
}
