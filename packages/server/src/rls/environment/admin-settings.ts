/**
 * The listener for operators of a rate limit service with Envoy's files, from environment
 * variables. Without TIDEGATE_ADMIN_PORT there is none, and there is no default credential.
 */

import { refused, type Variables } from './read-variable.ts'

const roles = ['read', 'operate', 'admin'] as const

export interface RlsAdminSettings {
  readonly host: string
  readonly port: number
  /** The first token, with the role `admin`. */
  readonly token: string | undefined
  /** The file of the first token, instead of `token`. */
  readonly tokenFile: string | undefined
  /** Paths of PEM files. */
  readonly tls: AdminTlsFiles | undefined
  /** Roles by an alternative name in the certificate of a client. */
  readonly certificates: Readonly<Record<string, (typeof roles)[number]>>
  /** Names of the listener beside addresses and `localhost`. */
  readonly hosts: readonly string[]
  readonly stateFile: string | undefined
}

export interface AdminTlsFiles {
  readonly cert: string
  readonly key: string
  readonly clientCa: string | undefined
}

const names = [
  'HOST',
  'TOKEN',
  'TOKEN_FILE',
  'TLS_CERT',
  'TLS_KEY',
  'TLS_CA',
  'CERTIFICATES',
  'HOSTS',
  'STATE',
].map((name) => `TIDEGATE_ADMIN_${name}`)

export function adminSettings(variables: Variables): RlsAdminSettings | undefined {
  if (variables.text('TIDEGATE_ADMIN_PORT') === undefined) {
    const needless = names.find((name) => variables.text(name) !== undefined)
    if (needless === undefined) return undefined
    throw refused(needless, variables.text(needless) ?? '', 'only with TIDEGATE_ADMIN_PORT')
  }
  const [token, tokenFile] = ['TIDEGATE_ADMIN_TOKEN', 'TIDEGATE_ADMIN_TOKEN_FILE'].map((name) =>
    variables.text(name),
  )
  if (token !== undefined && tokenFile !== undefined) {
    throw refused('TIDEGATE_ADMIN_TOKEN_FILE', tokenFile, 'only without TIDEGATE_ADMIN_TOKEN')
  }
  return {
    host: variables.text('TIDEGATE_ADMIN_HOST') ?? '127.0.0.1',
    port: variables.port('TIDEGATE_ADMIN_PORT', 0),
    token,
    tokenFile,
    tls: tlsOf(variables),
    certificates: certificatesOf(variables),
    hosts: listOf(variables.text('TIDEGATE_ADMIN_HOSTS')),
    stateFile: variables.text('TIDEGATE_ADMIN_STATE'),
  }
}

function tlsOf(variables: Variables): AdminTlsFiles | undefined {
  const cert = variables.text('TIDEGATE_ADMIN_TLS_CERT')
  const key = variables.text('TIDEGATE_ADMIN_TLS_KEY')
  const clientCa = variables.text('TIDEGATE_ADMIN_TLS_CA')
  if (cert !== undefined && key !== undefined) return { cert, key, clientCa }
  if (cert === undefined && key === undefined && clientCa === undefined) return undefined
  const missing = cert === undefined ? 'TIDEGATE_ADMIN_TLS_CERT' : 'TIDEGATE_ADMIN_TLS_KEY'
  throw refused(missing, '', 'a PEM file, with the others of TIDEGATE_ADMIN_TLS_')
}

function certificatesOf(variables: Variables): RlsAdminSettings['certificates'] {
  const name = 'TIDEGATE_ADMIN_CERTIFICATES'
  const pairs = listOf(variables.text(name)).map((pair) => {
    const at = pair.lastIndexOf('=')
    const role = roles.find((one) => one === pair.slice(at + 1))
    if (at > 0 && role !== undefined) return [pair.slice(0, at), role] as const
    throw refused(name, pair, `pairs such as ops.example=operate; roles: ${roles.join(', ')}`)
  })
  if (pairs.length > 0 && variables.text('TIDEGATE_ADMIN_TLS_CA') === undefined) {
    throw refused(name, variables.text(name) ?? '', 'only with TIDEGATE_ADMIN_TLS_CA')
  }
  return Object.fromEntries(pairs)
}

function listOf(text = ''): readonly string[] {
  return text
    .split(',')
    .map((one) => one.trim())
    .filter((one) => one !== '')
}
