/** The etcd that the rate limit service follows, from environment variables. */

import type { Secret } from '../../config/secrets.ts'
import type { TlsFiles } from '../../config/tls-files.ts'
import { refused, type Variables } from './read-variable.ts'

export interface RlsControlSettings {
  readonly endpoints: readonly string[]
  readonly prefix: string
  /** Paths of PEM files. */
  readonly tls: TlsFiles | undefined
  readonly user: string | undefined
  readonly password: Secret | string | undefined
  readonly node: string | undefined
  readonly region: string | undefined
  readonly stateFile: string | undefined
}

const PREFIX = /^\/[A-Za-z0-9_.-]+(\/[A-Za-z0-9_.-]+)*\/$/

/** Undefined without TIDEGATE_ETCD_ENDPOINTS: the files of a directory are followed then. */
export function controlSettings(variables: Variables): RlsControlSettings | undefined {
  const endpoints = variables.text('TIDEGATE_ETCD_ENDPOINTS')
  if (endpoints === undefined) return undefined
  const prefix = variables.text('TIDEGATE_ETCD_PREFIX') ?? '/tidegate/default/'
  if (!PREFIX.test(prefix)) {
    throw refused('TIDEGATE_ETCD_PREFIX', prefix, 'a prefix such as /tidegate/production/')
  }
  const [ca, cert, key] = ['CA', 'CERT', 'KEY'].map((name) =>
    variables.text(`TIDEGATE_ETCD_${name}`),
  )
  const files = { ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }) }
  return {
    endpoints: endpoints.split(',').map(endpointOf),
    prefix,
    tls: Object.keys(files).length === 0 ? undefined : files,
    user: variables.text('TIDEGATE_ETCD_USER'),
    password: variables.text('TIDEGATE_ETCD_PASSWORD'),
    node: variables.text('TIDEGATE_NODE'),
    region: variables.text('TIDEGATE_REGION'),
    stateFile: variables.text('TIDEGATE_STATE_FILE'),
  }
}

function endpointOf(text: string): string {
  const url = URL.parse(text.trim())
  const isEndpoint = url !== null && /^https?:$/.test(url.protocol) && url.pathname === '/'
  if (isEndpoint && url.username === '' && url.password === '') return url.origin
  const allowed = 'URLs such as https://10.0.0.1:2379, separated by commas'
  throw refused('TIDEGATE_ETCD_ENDPOINTS', text, allowed)
}
