/**
 * The meaning of errors of the server or of a client: a server that cannot be reached, one that
 * cannot serve now, or a wrong set-up, which does not end by itself.
 */

import { TidegateError } from '../../errors.ts'

/**
 * Errors of a server that answers but cannot serve: it loads, fails over, is full or busy. GLIDE
 * has names of its own for most codes.
 */
const failed = words(
  ...['READONLY', 'LOADING', 'MASTERDOWN', 'CLUSTERDOWN', 'TRYAGAIN', 'BUSY', 'OOM', 'NOREPLICAS'],
  ...['MISCONF', 'MOVED', 'ASK', 'UNBLOCKED', 'max number of clients'],
  ...['ReadOnly', 'BusyLoadingError', 'MasterDown', 'ClusterDown', 'TryAgain'],
)

/** Mistakes, which stay until the set-up or the code changes. */
const misconfigured = words(
  ...['CROSSSLOT', 'WRONGTYPE', 'NOPERM', 'NOAUTH', 'WRONGPASS', 'NOPROTO', 'NOSCRIPT'],
  ...['user_script', 'unknown command', 'wrong number of arguments', 'compiling script'],
  ...['CrossSlot', 'PermissionDenied', 'An error was signalled by the server'],
)

/** The error as the store reports it, with the original as its cause. */
export function redisError(error: unknown): TidegateError {
  if (error instanceof TidegateError) return error
  const message = messageOf(error)
  // A client for clusters follows these itself, so this is a client for a single server.
  if (/^(MOVED|ASK) \d/.test(message)) return storeError('store-misconfigured', message, error)
  // First, because a script that the server stops in the middle is named in the message, too.
  if (failed.test(message)) return storeError('store-failed', message, error)
  if (misconfigured.test(message) || isReply(error))
    return storeError('store-misconfigured', message, error)
  return storeError('store-unreachable', message, error)
}

/** Refused before it ran, because the server did not know the script. */
export function isNoScript(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const message = error.message.replace(gaveUp, '').replace(introduction, '')
  return /^(NOSCRIPT|NoScriptError)\b/.test(message)
}

/** Refused before it ran, because the keys of a group are on their way to another node. */
export function isTryAgain(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const { message } = error
  if (/\b(TRYAGAIN|TryAgain)\b/.test(message)) return true
  // Sent from one to the other until the client gave up.
  return gaveUp.test(message) && /^(MOVED|ASK|$)/.test(message.replace(gaveUp, ''))
}

/** The text that ioredis and node-redis put before the error of the last node that they tried. */
const gaveUp = /^Too many Cluster redirections(\. Last error: \w+: |$)/

/** The text that @upstash/redis puts before an error, and GLIDE before the name of a code. */
const introduction = /^(Command failed: |An error was signalled by the server: - )/

/** Refused because the server is a replica now, or a master that is cut off: the wrong one. */
export function isWrongServer(error: unknown): boolean {
  return error instanceof Error && /\b(READONLY|ReadOnly|NOREPLICAS)\b/.test(error.message)
}

function storeError(
  code: 'store-misconfigured' | 'store-failed' | 'store-unreachable',
  message: string,
  cause: unknown,
): TidegateError {
  return new TidegateError(code, `Redis: ${message}`, undefined, { cause })
}

function words(...list: readonly string[]): RegExp {
  return new RegExp(`\\b(${list.join('|')})\\b`)
}

/** Some errors of the clients have no message, only a name or a code. */
function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if (error.message !== '') return error.message
  return 'code' in error ? `${error.name} ${String(error.code)}` : error.name
}

/** An error that the server itself has sent, and not the client. */
function isReply(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const names = /^(ReplyError|SimpleError|BlobError|ErrorReply)$/
  return names.test(error.name) || names.test(error.constructor.name)
}

/** The server's time, if it refused a calendar because no window contains it. */
export function timeOfRefusal(error: TidegateError): number | undefined {
  const match = /TIDEGATE-WINDOW (\d+)/.exec(error.message)
  return match === null ? undefined : Number(match[1])
}
