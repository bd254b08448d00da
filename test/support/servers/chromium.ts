/**
 * A headless browser, driven by the DevTools protocol. `./run.sh test` installs it; its tests are
 * skipped if it is missing. https://chromedevtools.github.io/devtools-protocol/
 */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { WebSocket } from 'undici'
import { findProgram } from './find-program.ts'
import { makeFolder, removeFolder, ServerProcess } from './server-process.ts'
import { until } from './until.ts'

export interface Page {
  /** Runs the source of an async function in the page, and returns its result. */
  run(source: string): Promise<unknown>
}

export interface Chromium {
  /** Opens a page, and waits until it is loaded. */
  open(url: string): Promise<Page>
  close(): Promise<void>
}

/** Names of the program, the smallest first. */
const names = ['chromium-headless-shell', 'chromium', 'google-chrome']

/** In Debian, the program on the PATH is a script: a signal ends the script and not the browser. */
const DEBIAN_FOLDER = '/usr/lib/chromium'

/** The path of the program; undefined if it is not installed. */
export function chromiumBinary(): string | undefined {
  return process.env.TIDEGATE_CHROMIUM ?? findProgram(names, [DEBIAN_FOLDER])
}

const flags = [
  '--headless=new',
  '--remote-debugging-port=0',
  // Needed to start as root, as in a container.
  '--no-sandbox',
  '--disable-gpu',
  '--disable-dev-shm-usage',
  '--no-first-run',
  // The certificates of tests are signed by an authority of their own.
  '--ignore-certificate-errors',
]

export async function startChromium(binary: string): Promise<Chromium> {
  const folder = makeFolder()
  const child = new ServerProcess(binary, [...flags, `--user-data-dir=${folder}`], folder)
  const close = async () => {
    await child.end()
    removeFolder(folder)
  }
  try {
    const [port, path] = await until('the browser listens', () => {
      if (child.hasEnded) throw new Error(child.output)
      const lines = readFileSync(join(folder, 'DevToolsActivePort'), 'utf8').split('\n')
      return lines.length > 1 && lines
    })
    const session = new DevTools(new WebSocket(`ws://127.0.0.1:${port}${path}`))
    await session.opened
    return {
      open: (url) => openPage(session, url),
      async close() {
        // The browser may end before it has replied.
        session.send('Browser.close', {}).catch(() => undefined)
        // The browser's processes write to the folder until they end.
        await until('the browser has ended', () => child.hasEnded)
        await close()
      },
    }
  } catch (error) {
    await close()
    throw error
  }
}

async function openPage(tools: DevTools, url: string): Promise<Page> {
  const { targetId } = await tools.send('Target.createTarget', { url })
  const { sessionId } = await tools.send('Target.attachToTarget', { targetId, flatten: true })
  const evaluate = async (expression: string) => {
    const wanted = { expression, awaitPromise: true, returnByValue: true }
    const { result, exceptionDetails } = await tools.send('Runtime.evaluate', wanted, sessionId)
    if (exceptionDetails !== undefined) throw new Error(JSON.stringify(exceptionDetails))
    return (result as { value?: unknown }).value
  }
  const isLoaded = `location.href !== 'about:blank' && document.readyState === 'complete'`
  await until('the page is loaded', async () => (await evaluate(isLoaded)) === true)
  return { run: (source) => evaluate(`(${source})()`) }
}

type Reply = Readonly<Record<string, unknown>>

/** Commands and their replies, matched by a number. */
class DevTools {
  readonly opened: Promise<void>
  readonly #socket: WebSocket
  readonly #waiting = new Map<number, { resolve(reply: Reply): void; reject(error: Error): void }>()
  #lastId = 0

  constructor(socket: WebSocket) {
    this.#socket = socket
    this.opened = new Promise((resolve, reject) => {
      socket.addEventListener('open', () => resolve())
      socket.addEventListener('error', () => reject(new Error('the browser refuses to be driven')))
    })
    socket.addEventListener('message', ({ data }) => this.#take(JSON.parse(String(data))))
  }

  send(method: string, params: object, sessionId?: unknown): Promise<Reply> {
    this.#lastId += 1
    const id = this.#lastId
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject })
      this.#socket.send(JSON.stringify({ id, method, params, sessionId }))
    })
  }

  #take(message: { id?: number; result?: Reply; error?: Reply }): void {
    const waiting = this.#waiting.get(message.id ?? 0)
    if (waiting === undefined) return
    this.#waiting.delete(message.id ?? 0)
    if (message.error === undefined) waiting.resolve(message.result ?? {})
    else waiting.reject(new Error(JSON.stringify(message.error)))
  }
}
