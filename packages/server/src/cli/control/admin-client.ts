/** Calls the admin API of a node for a command, and prints the result for people or programs. */

import { readFileSync } from 'node:fs'
import { type Environment, SettingError } from '../../app/environment.ts'
import type { TlsContents } from '../../config/tls-files.ts'
import { escapeUnsafe } from '../../control/plain-text.ts'
import { type Terminal, UsageError } from '../terminal.ts'
import { readAdminTls, sendToAdmin } from './admin-request.ts'

/** Options of every command that calls the API. */
export const adminOptions = {
  admin: { type: 'string' },
  'token-file': { type: 'string' },
  ca: { type: 'string' },
  cert: { type: 'string' },
  key: { type: 'string' },
  json: { type: 'boolean', default: false },
} as const

export const changeOptions = { ...adminOptions, why: { type: 'string' } } as const

export const endOptions = {
  for: { type: 'string' },
  until: { type: 'string' },
  forever: { type: 'boolean', default: false },
} as const

export const ADMIN_HELP = `  --admin URL         The admin listener. Default: TIDEGATE_ADMIN, or
                      http://127.0.0.1:8083
  --token-file FILE   The file with the token. Default: the token in TIDEGATE_TOKEN
  --ca FILE           The CA of an admin listener with https. Default: TIDEGATE_CA
  --cert FILE         A client certificate instead of a token, with --key FILE. Default:
                      TIDEGATE_CERT and TIDEGATE_KEY
  --json              Print the response as JSON
`

export const END_HELP = `  --for TIME          How long it holds, such as 30m or 7d
  --until TIME        When it ends, such as 2026-12-01T00:00:00Z, instead of --for
  --forever           It has no end; needs the role admin
`

export const WHY_HELP = `  --why TEXT          The reason, which the audit keeps
`

const URL_DEFAULT = 'http://127.0.0.1:8083'

export interface AdminValues {
  readonly admin?: string | undefined
  readonly 'token-file'?: string | undefined
  readonly ca?: string | undefined
  readonly cert?: string | undefined
  readonly key?: string | undefined
  readonly json?: boolean | undefined
}

export class AdminClient {
  readonly #url: string
  /** Undefined if a certificate is the credential. */
  readonly #token: string | undefined
  readonly #tls: TlsContents
  readonly #isJson: boolean
  readonly #terminal: Terminal

  constructor(values: AdminValues, terminal: Terminal) {
    const { environment } = terminal
    this.#url = urlOf(values.admin ?? environment.TIDEGATE_ADMIN ?? URL_DEFAULT)
    const files = {
      ca: values.ca ?? environment.TIDEGATE_CA,
      cert: values.cert ?? environment.TIDEGATE_CERT,
      key: values.key ?? environment.TIDEGATE_KEY,
    }
    this.#tls = readAdminTls(files, this.#url)
    this.#token = tokenOf(values['token-file'], environment, files.cert !== undefined)
    this.#isJson = values.json === true
    this.#terminal = terminal
  }

  /** Throws SettingError with the sentence of the API if it refuses. */
  async call(method: string, path: string, body?: object): Promise<Record<string, unknown>> {
    return JSON.parse(await this.text(method, path, body))
  }

  async text(method: string, path: string, body?: object): Promise<string> {
    const { status, text } = await sendToAdmin({
      url: new URL(`${this.#url}${path}`),
      method,
      headers: {
        ...(this.#token === undefined ? undefined : { authorization: `Bearer ${this.#token}` }),
        ...(body === undefined ? undefined : { 'content-type': 'application/json' }),
      },
      body: body === undefined ? undefined : JSON.stringify(body),
      tls: this.#tls,
    })
    if (status >= 200 && status < 300) return text
    throw new SettingError(escapeUnsafe(problemText(status, text, this.#url)))
  }

  /** Prints JSON if the command was told to, else the lines. No text can control the terminal. */
  print(result: object, lines: () => readonly string[]): void {
    const text = this.#isJson ? JSON.stringify(result, null, 2) : lines().join('\n')
    this.#terminal.stdout(`${escapeUnsafe(text)}\n`)
  }
}

/** The end of an entry as the API takes it. */
export function endOf(values: {
  readonly for?: string | undefined
  readonly until?: string | undefined
  readonly forever?: boolean | undefined
}): object {
  return {
    ...(values.for === undefined ? undefined : { for: values.for }),
    ...(values.until === undefined ? undefined : { expires: values.until }),
    ...(values.forever === true ? { forever: true } : undefined),
  }
}

export function whyOf(why: string | undefined): string {
  if (why !== undefined && why !== '') return why
  throw new UsageError('--why TEXT is missing: the reason of the change')
}

/** Such as `this node only`. */
export function noteOf(result: Readonly<Record<string, unknown>>): string {
  return typeof result.note === 'string' ? result.note : ''
}

export function untilText(expires: unknown): string {
  return typeof expires === 'string' ? `until ${expires}` : 'without an end'
}

function urlOf(text: string): string {
  const url = URL.parse(text)
  if (url !== null && /^https?:$/.test(url.protocol) && url.username === '') return url.origin
  throw new UsageError('--admin: allowed is a URL such as http://127.0.0.1:8083')
}

/** Undefined without a token if there is a certificate. */
function tokenOf(
  file: string | undefined,
  environment: Environment,
  hasCertificate: boolean,
): string | undefined {
  const token = file === undefined ? environment.TIDEGATE_TOKEN : contentOf(file)
  if (token !== undefined && /^[\x21-\x7e]+$/.test(token)) return token
  if (token === undefined && hasCertificate) return undefined
  if (token !== undefined && token !== '') {
    const place = file === undefined ? 'TIDEGATE_TOKEN' : `--token-file ${file}`
    throw new SettingError(`${place}: not a token, because of spaces or other characters`)
  }
  const others = 'use --token-file FILE, or --cert FILE with --key FILE'
  throw new SettingError(`there is no token: set TIDEGATE_TOKEN, or ${others}`)
}

function contentOf(file: string): string {
  try {
    return readFileSync(file, 'utf8').trim()
  } catch {
    throw new SettingError(`--token-file ${file}: cannot be read`)
  }
}

function problemText(status: number, text: string, url: string): string {
  if (status === 404 && !text.includes('There is no such')) return `${url}: ${status}`
  try {
    const { detail } = JSON.parse(text) as { readonly detail?: unknown }
    if (typeof detail === 'string') return `${status}: ${detail}`
  } catch {
    // The response is not that of the admin API.
  }
  return `${url} responds with ${status}, and is not an admin listener`
}
