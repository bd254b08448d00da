/**
 * The configuration of an Envoy for tests: routes that ask the rate limit service, and an upstream.
 */

import type { Certificate } from '../../support/servers/certificates.ts'

export interface EnvoyPorts {
  readonly admin: number
  /** Admits requests if the service does not answer. */
  readonly open: number
  /** Refuses requests if the service does not answer. */
  readonly deny: number
  readonly service: number
  readonly upstream: number
}

/** A busy machine can be slower than Envoy's 20 ms; faults.test.ts tests that bound. */
const PATIENT = '2s'

const TYPES = 'type.googleapis.com/envoy.extensions'

const header = (key: string, name: string) => ({
  request_headers: { descriptor_key: key, header_name: name },
})

/** The actions of each path. */
const routes: Readonly<Record<string, object>> = {
  '/tenant': { actions: [header('tenant', 'x-tenant')] },
  '/path': { actions: [header('tenant', 'x-tenant'), header('path', 'x-path')] },
  '/tried': { actions: [header('tried', 'x-tenant')] },
  '/override': {
    actions: [header('any', 'x-tenant')],
    limit: { dynamic_metadata: { metadata_key: { key: 'test.limit', path: [{ key: 'own' }] } } },
  },
  '/address': { actions: [{ remote_address: {} }] },
}

/** Envoy supports the cost of a request only for limits of the filter. */
const costRoute = {
  match: { prefix: '/cost' },
  route: { cluster: 'upstream' },
  typed_per_filter_config: {
    'envoy.filters.http.ratelimit': {
      '@type': `${TYPES}.filters.http.ratelimit.v3.RateLimitPerRoute`,
      rate_limits: [
        { actions: [header('cost', 'x-tenant')], hits_addend: { format: '%REQ(x-cost)%' } },
      ],
    },
  },
}

/** With a certificate, Envoy presents it to the service, and trusts only that certificate. */
export function envoyConfig(ports: EnvoyPorts, certificate?: Certificate): object {
  const http2 = { http2_protocol_options: {} }
  const service = cluster('ratelimit', ports.service, http2)
  return {
    admin: { address: address(ports.admin) },
    static_resources: {
      listeners: [listener('open', ports.open, false), listener('deny', ports.deny, true)],
      clusters: [
        cluster('upstream', ports.upstream, { http_protocol_options: {} }),
        certificate === undefined ? service : { ...service, ...tlsSocket(certificate) },
      ],
    },
  }
}

function listener(name: string, port: number, isDenying: boolean): object {
  const manager = {
    '@type': `${TYPES}.filters.network.http_connection_manager.v3.HttpConnectionManager`,
    stat_prefix: name,
    route_config: { virtual_hosts: [virtualHost()] },
    http_filters: [metadataFilter(), rateLimitFilter(isDenying), router()],
  }
  const filter = { name: 'envoy.filters.network.http_connection_manager', typed_config: manager }
  return { name, address: address(port), filter_chains: [{ filters: [filter] }] }
}

function virtualHost(): object {
  return {
    name: 'all',
    domains: ['*'],
    routes: [
      costRoute,
      ...Object.entries(routes).map(([prefix, limit]) => ({
        match: { prefix },
        route: { cluster: 'upstream', rate_limits: [limit] },
      })),
    ],
    response_headers_to_add: [
      {
        header: {
          key: 'x-metadata',
          value: '%DYNAMIC_METADATA(envoy.filters.http.ratelimit:metadata)%',
        },
      },
    ],
  }
}

/** The metadata that `/override` uses as the limit. */
function metadataFilter(): object {
  return {
    name: 'envoy.filters.http.set_metadata',
    typed_config: {
      '@type': `${TYPES}.filters.http.set_metadata.v3.Config`,
      metadata: [
        {
          metadata_namespace: 'test.limit',
          value: { own: { requests_per_unit: 2, unit: 'DAY' } },
        },
      ],
    },
  }
}

function rateLimitFilter(isDenying: boolean): object {
  return {
    name: 'envoy.filters.http.ratelimit',
    typed_config: {
      '@type': `${TYPES}.filters.http.ratelimit.v3.RateLimit`,
      domain: 'shop',
      timeout: PATIENT,
      failure_mode_deny: isDenying,
      enable_x_ratelimit_headers: 'DRAFT_VERSION_03',
      rate_limit_service: {
        grpc_service: { envoy_grpc: { cluster_name: 'ratelimit' } },
        transport_api_version: 'V3',
      },
    },
  }
}

function router(): object {
  return {
    name: 'envoy.filters.http.router',
    typed_config: { '@type': `${TYPES}.filters.http.router.v3.Router` },
  }
}

function cluster(name: string, port: number, protocol: object): object {
  const options = 'envoy.extensions.upstreams.http.v3.HttpProtocolOptions'
  return {
    name,
    connect_timeout: '1s',
    type: 'STATIC',
    // Outlier ejection would hide how soon the service is used again.
    circuit_breakers: { thresholds: [{ max_requests: 10_000, max_pending_requests: 10_000 }] },
    typed_extension_protocol_options: {
      [options]: { '@type': `type.googleapis.com/${options}`, explicit_http_config: protocol },
    },
    load_assignment: {
      cluster_name: name,
      endpoints: [{ lb_endpoints: [{ endpoint: { address: address(port) } }] }],
    },
  }
}

function tlsSocket({ certFile, keyFile }: Certificate): object {
  return {
    transport_socket: {
      name: 'envoy.transport_sockets.tls',
      typed_config: {
        '@type': `${TYPES}.transport_sockets.tls.v3.UpstreamTlsContext`,
        sni: 'localhost',
        common_tls_context: {
          tls_certificates: [
            { certificate_chain: { filename: certFile }, private_key: { filename: keyFile } },
          ],
          validation_context: { trusted_ca: { filename: certFile } },
        },
      },
    },
  }
}

function address(port: number): object {
  return { socket_address: { address: '127.0.0.1', port_value: port } }
}
