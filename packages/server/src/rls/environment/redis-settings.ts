/** The Redis server of the reference's variables, for all limits or for per-second limits. */

import type { ConnectionOptions } from 'node:tls'
import { readTlsFiles, type TlsFiles } from '../../config/tls-files.ts'
import type { StoreSettings } from '../../stores/create-store.ts'
import { refused, type Variables } from './read-variable.ts'

interface Address {
  readonly address: string
  readonly username?: string
  readonly password?: string
  readonly database?: number
  readonly isTls: boolean
}

const ADDRESS = /^(?:(rediss?):\/\/)?(?:(.*)@)?([^@/]+?)(?:\/(\d{1,9})?)?$/

const HOST_AND_PORT = /^(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]{1,255}):\d{1,5}$/

/** The size of a Unix socket address on Linux, without its final zero byte. */
const PATH_BYTES_MAX = 107

const types = ['SINGLE', 'SENTINEL', 'CLUSTER'] as const

const socketTypes = ['tcp', 'unix'] as const

const modes = { SINGLE: 'standalone', SENTINEL: 'sentinel', CLUSTER: 'cluster' } as const

/** The most that the store accepts. */
const BUCKETS_MAX = 1_024

/** `prefix` is that of the variables, such as `REDIS_`. Returns undefined if there is no URL. */
export function redisSettings(variables: Variables, prefix: string): StoreSettings | undefined {
  const url = variables.text(`${prefix}URL`)
  if (url === undefined) return undefined
  const type = variables.oneOf(`${prefix}TYPE`, 'SINGLE', types)
  const parts = url.split(',').map((part) => part.trim())
  const sentinelName = type === 'SENTINEL' ? parts.shift() : undefined
  checkCount(`${prefix}URL`, url, type, parts.length)
  const isPath = type === 'SINGLE' && url.startsWith('/')
  checkSocketType(variables, prefix, isPath)
  const addresses = isPath
    ? [pathOf(`${prefix}URL`, url)]
    : parts.map((part) => addressOf(`${prefix}URL`, part))
  const [first] = addresses
  const auth = authOf(variables.text(`${prefix}AUTH`))
  const isTls = variables.flag(`${prefix}TLS`) || addresses.some((one) => one.isTls)
  const sentinelPassword = variables.text(`${prefix}SENTINEL_AUTH`)
  const storePrefix = variables.text('TIDEGATE_REDIS_PREFIX')
  const buckets = variables.integer('TIDEGATE_REDIS_BUCKETS', -1, 0, BUCKETS_MAX)
  const username = auth.username ?? first?.username
  const password = auth.password ?? first?.password
  const database = type === 'CLUSTER' ? undefined : first?.database
  return {
    mode: modes[type],
    addresses: addresses.map(({ address }) => address),
    ...(sentinelName === undefined ? undefined : { sentinelName }),
    ...(username === undefined ? undefined : { username }),
    ...(password === undefined ? undefined : { password }),
    ...(database === undefined ? undefined : { database }),
    ...(sentinelPassword === undefined ? undefined : { sentinelPassword }),
    ...(isTls ? { tls: tlsOptions(variables) } : undefined),
    ...(storePrefix === undefined ? undefined : { prefix: storePrefix }),
    ...(type === 'CLUSTER' && buckets >= 0 ? { buckets } : undefined),
  }
}

function checkCount(name: string, url: string, type: (typeof types)[number], count: number): void {
  if (type === 'SINGLE' && count !== 1) {
    throw refused(name, url, 'one host:port; for several, set the type to SENTINEL or CLUSTER')
  }
  if (count === 0) throw refused(name, url, 'master,sentinel:port,sentinel:port')
}

/** The URL shows the type of the socket; if the variable differs, one of them is a mistake. */
function checkSocketType(variables: Variables, prefix: string, isPath: boolean): void {
  const fitting = isPath ? 'unix' : 'tcp'
  const type = variables.oneOf(`${prefix}SOCKET_TYPE`, fitting, socketTypes)
  if (type === fitting) return
  const why = isPath ? `a path in ${prefix}URL` : `host:port in ${prefix}URL`
  throw refused(`${prefix}SOCKET_TYPE`, type, `${fitting}, with ${why}`)
}

function pathOf(name: string, path: string): Address {
  if (Buffer.byteLength(path) <= PATH_BYTES_MAX) return { address: path, isTls: false }
  throw refused(name, path, `the path of a socket, of at most ${PATH_BYTES_MAX} bytes`)
}

function addressOf(name: string, text: string): Address {
  const [, scheme, credentials, address = '', database] = ADDRESS.exec(text) ?? []
  const isRight = HOST_AND_PORT.test(address) && Number(address.split(':').at(-1)) <= 65_535
  if (!isRight) throw refused(name, text, 'host:port such as localhost:6379 or redis://host:port')
  return {
    address,
    isTls: scheme === 'rediss',
    ...(credentials === undefined ? undefined : credentialsOf(credentials)),
    ...(database === undefined ? undefined : { database: Number(database) }),
  }
}

function credentialsOf(text: string): { username?: string; password?: string } {
  const colonAt = text.indexOf(':')
  if (colonAt < 0) return { username: text }
  const username = text.slice(0, colonAt)
  const password = text.slice(colonAt + 1)
  return username === '' ? { password } : { username, password }
}

/** `password` or `user:password`. */
function authOf(text: string | undefined): { username?: string; password?: string } {
  if (text === undefined) return {}
  return text.includes(':') ? credentialsOf(text) : { password: text }
}

function tlsOptions(variables: Variables): ConnectionOptions {
  const ca = fileOf(variables, 'REDIS_TLS_CACERT', 'ca')
  const cert = fileOf(variables, 'REDIS_TLS_CLIENT_CERT', 'cert')
  const key = fileOf(variables, 'REDIS_TLS_CLIENT_KEY', 'key')
  const isAnyName = variables.flag('REDIS_TLS_SKIP_HOSTNAME_VERIFICATION')
  return {
    ...(ca === undefined ? undefined : { ca }),
    ...(cert === undefined || key === undefined ? undefined : { cert, key }),
    // The certificate itself is still verified.
    ...(isAnyName ? { checkServerIdentity: () => undefined } : undefined),
  }
}

function fileOf(variables: Variables, name: string, use: keyof TlsFiles): Buffer | undefined {
  const path = variables.text(name)
  try {
    return readTlsFiles({ [use]: path })[use]
  } catch (error) {
    throw refused(name, path ?? '', `a file that can be read (${(error as Error).message})`)
  }
}
