/** Sends one request to an admin listener, over TLS with a certificate if there is one. */

import { request as httpRequest } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { SettingError } from '../../app/environment.ts'
import { checkTls, readTlsFiles, type TlsContents, type TlsFiles } from '../../config/tls-files.ts'
import { UsageError } from '../terminal.ts'

export interface AdminRequest {
  readonly url: URL
  readonly method: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | undefined
  readonly tls: TlsContents
}

export interface AdminAnswer {
  readonly status: number
  readonly text: string
}

/** Longer than a change waits for others. */
const TIMEOUT_MS = 30_000

/** An export has 10,000 records; each takes about 1 KB. */
const ANSWER_BYTES_MAX = 64 * 1024 ** 2

/** Throws SettingError if the listener cannot be reached, or is not the one that is trusted. */
export async function sendToAdmin(asked: AdminRequest): Promise<AdminAnswer> {
  try {
    return await send(asked)
  } catch (error) {
    throw new SettingError(`${asked.url.origin} cannot be reached: ${reasonOf(error as Error)}`)
  }
}

/** Throws UsageError or SettingError if the files cannot be used. */
export function readAdminTls(files: TlsFiles, url: string): TlsContents {
  const given = Object.entries(files).filter(([, file]) => file !== undefined)
  const [first] = given
  if (first !== undefined && !url.startsWith('https:')) {
    throw new UsageError(`--${first[0]}: only for an admin listener with https`)
  }
  if ((files.cert === undefined) !== (files.key === undefined)) {
    throw new UsageError('--cert and --key: one needs the other')
  }
  for (const [name, file = ''] of given) {
    try {
      readTlsFiles({ [name]: file })
    } catch {
      throw new SettingError(`--${name} ${file}: cannot be read`)
    }
  }
  const contents = readTlsFiles(files)
  try {
    checkTls(contents, given.map(([name]) => `--${name}`).join(', '))
  } catch (error) {
    throw new SettingError((error as Error).message)
  }
  return contents
}

function send({ url, method, headers, body, tls }: AdminRequest): Promise<AdminAnswer> {
  const { promise, resolve, reject } = Promise.withResolvers<AdminAnswer>()
  const signal = AbortSignal.timeout(TIMEOUT_MS)
  const length = body === undefined ? undefined : { 'content-length': Buffer.byteLength(body) }
  const options = { method, headers: { ...headers, ...length }, signal, agent: false as const }
  const start = () =>
    url.protocol === 'https:'
      ? httpsRequest(url, { ...options, ...definedOf(tls) })
      : httpRequest(url, options)
  const request = start()
  request.on('error', reject)
  request.on('response', (response) => {
    const chunks: Buffer[] = []
    let bytes = 0
    response.on('error', reject)
    response.on('data', (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes > ANSWER_BYTES_MAX) request.destroy(new Error('the response is too large'))
      else chunks.push(chunk)
    })
    response.on('end', () => {
      const text = Buffer.concat(chunks).toString('utf8')
      resolve({ status: response.statusCode ?? 0, text })
    })
  })
  request.end(body)
  return promise
}

function definedOf({ ca, cert, key }: TlsContents) {
  return { ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }) }
}

const untrusted = new Set([
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
])

function reasonOf(error: Error & { readonly code?: string }): string {
  const { code = '', message, name } = error
  if (untrusted.has(code)) return 'its certificate is not trusted; name its CA with --ca FILE'
  if (name === 'AbortError' || name === 'TimeoutError')
    return `no answer in ${TIMEOUT_MS / 1_000} s`
  if (code === 'EPROTO') return 'it does not speak TLS, or refuses the certificate'
  return message || code
}
