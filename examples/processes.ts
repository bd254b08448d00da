/** Starts the gateway and the sample backend as separate processes, and stops them. */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

export interface Running {
  readonly child: ChildProcess
  /** Sends SIGTERM and waits until the process has exited. */
  end(): Promise<void>
}

type Output = 'inherit' | 'ignore'

const HOST = '127.0.0.1'
/** A start takes a second, and half a minute on a machine with much other work. */
const START_MS_MAX = 60_000
const root = join(import.meta.dirname, '..')

// A closed pipe, such as that of `| head`, must not end this process before it stops its children.
process.stdout.on('error', () => undefined)

export function startBackend(port: number, output: Output): Promise<Running> {
  return start(['examples/backend.ts'], { BACKEND_PORT: String(port) }, port, output)
}

export function startGateway(
  environment: Readonly<Record<string, string>>,
  port: number,
  output: Output,
): Promise<Running> {
  const program = ['packages/server/src/main.ts', 'gateway']
  return start(program, { ...environment, PORT: String(port) }, port, output)
}

/** A gateway with a policy file, which has the port. */
export function startGatewayOf(file: string, port: number, output: Output): Promise<Running> {
  return start(['packages/server/src/main.ts', 'gateway', '--config', file], {}, port, output)
}

/** The port itself, or any free port if it is in use. */
export async function freePortNear(port: number): Promise<number> {
  for (const candidate of [port, 0]) {
    const server = createServer()
    const found = new Promise<number | undefined>((resolve) => {
      server.once('error', () => resolve(undefined))
      server.listen(candidate, HOST, () => resolve((server.address() as { port: number }).port))
    })
    const free = await found
    server.close()
    if (free !== undefined) return free
  }
  throw new Error('no port is free')
}

/** The port in an environment variable; undefined if it is not set. */
export function portOf(name: string): number | undefined {
  const text = process.env[name]
  if (text === undefined || text === '') return undefined
  const port = Number(text)
  if (Number.isSafeInteger(port) && port >= 1 && port <= 65_535) return port
  throw new Error(`${name}=${JSON.stringify(text)} is not allowed; allowed: a port from 1 to 65535`)
}

export async function refuseTaken(name: string, port: number): Promise<void> {
  if (!(await isListening(port))) return
  throw new Error(`port ${port} is in use; stop what listens there, or set ${name} to another`)
}

export function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, HOST)
    const settle = (answer: boolean) => {
      socket.destroy()
      resolve(answer)
    }
    socket.once('connect', () => settle(true)).once('error', () => settle(false))
  })
}

async function start(
  program: readonly string[],
  environment: Readonly<Record<string, string>>,
  port: number,
  output: Output,
): Promise<Running> {
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', ...program], {
    cwd: root,
    env: { ...process.env, ...environment },
    stdio: ['ignore', output, 'inherit'],
  })
  const running = { child, end: () => end(child) }
  const deadline = Date.now() + START_MS_MAX
  while (!(await isListening(port))) {
    if (child.exitCode !== null) throw new Error(`${program.join(' ')} exited at the start`)
    if (Date.now() > deadline) {
      await end(child)
      throw new Error(`${program.join(' ')} does not answer`)
    }
    await sleep(50)
  }
  return running
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  child.kill('SIGTERM')
  await once(child, 'exit')
}
