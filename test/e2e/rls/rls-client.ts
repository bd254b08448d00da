/** A stock gRPC client for the rate limit service. */

import { join } from 'node:path'
import {
  type ChannelCredentials,
  type Client,
  credentials,
  loadPackageDefinition,
  Metadata,
  type ServiceClientConstructor,
  type ServiceError,
} from '@grpc/grpc-js'
import { loadSync } from '@grpc/proto-loader'

export interface DescriptorMessage {
  readonly entries: readonly { readonly key: string; readonly value?: string }[]
  readonly limit?: { readonly requests_per_unit: number; readonly unit: number | string }
  readonly hits_addend?: { readonly value: number }
  readonly is_negative_hits?: boolean
}

export interface RequestMessage {
  readonly domain: string
  readonly descriptors: readonly DescriptorMessage[]
  readonly hits_addend?: number
}

export interface StatusMessage {
  readonly code: 'UNKNOWN' | 'OK' | 'OVER_LIMIT'
  readonly current_limit: { requests_per_unit: number; unit: string; name: string } | null
  readonly limit_remaining: number
  readonly duration_until_reset: { readonly seconds: string } | null
}

export interface ResponseMessage {
  readonly overall_code: 'UNKNOWN' | 'OK' | 'OVER_LIMIT'
  readonly statuses: readonly StatusMessage[]
  readonly response_headers_to_add: readonly { readonly key: string; readonly value: string }[]
  readonly dynamic_metadata: unknown
}

export interface AskOptions {
  readonly deadlineMs?: number
  readonly metadata?: Readonly<Record<string, string>>
}

export interface RlsClient {
  /** Rejects with the ServiceError of a status that is not OK. */
  ask(request: RequestMessage, options?: AskOptions): Promise<ResponseMessage>
  /** The status of a service by `grpc.health.v1`. */
  health(service: string): Promise<string>
  close(): void
}

const definition = loadSync(join(import.meta.dirname, 'rls.proto'), {
  keepCase: true,
  longs: String,
  enums: String,
  defaults: true,
  oneofs: true,
})

interface Packages {
  readonly envoy: {
    readonly service: {
      readonly ratelimit: { readonly v3: { readonly RateLimitService: ServiceClientConstructor } }
    }
  }
}

const { RateLimitService } = (loadPackageDefinition(definition) as unknown as Packages).envoy
  .service.ratelimit.v3

type Callback<T> = (error: ServiceError | null, value?: T) => void

export function rlsClient(
  port: number,
  { channel = credentials.createInsecure(), host = '127.0.0.1' }: ClientOptions = {},
): RlsClient {
  // Connections are shared between clients with the same options, unless they have a pool each.
  const options = { 'grpc.use_local_subchannel_pool': 1 }
  const client = new RateLimitService(`${host}:${port}`, channel, options)
  const call = client.ShouldRateLimit as unknown as (
    request: RequestMessage,
    metadata: Metadata,
    options: { deadline?: number },
    callback: Callback<ResponseMessage>,
  ) => void
  return {
    ask: (request, { deadlineMs, metadata = {} } = {}) =>
      new Promise((resolve, reject) => {
        const deadline = deadlineMs === undefined ? {} : { deadline: Date.now() + deadlineMs }
        const sent = Metadata.fromHttp2Headers(metadata)
        call.call(client, request, sent, deadline, (error, value) => {
          if (error !== null || value === undefined) reject(error)
          else resolve(value)
        })
      }),
    health: (service) => health(client, service),
    close: () => client.close(),
  }
}

export interface ClientOptions {
  readonly channel?: ChannelCredentials
  readonly host?: string
}

const healthNames = ['UNKNOWN', 'SERVING', 'NOT_SERVING', 'SERVICE_UNKNOWN']

function health(client: Client, service: string): Promise<string> {
  const name = Buffer.from(service)
  const request = Buffer.concat([Buffer.from([10, name.length]), name])
  return new Promise((resolve, reject) => {
    client.makeUnaryRequest(
      '/grpc.health.v1.Health/Check',
      (message: Buffer) => message,
      (message: Buffer) => message,
      request,
      (error, value) => {
        if (error !== null || value === undefined) reject(error)
        else resolve(healthNames[value[1] ?? 0] ?? '')
      },
    )
  })
}

/** `domain`, and one descriptor for each list of `key=value`. */
export function request(domain: string, ...descriptors: readonly string[][]): RequestMessage {
  return {
    domain,
    descriptors: descriptors.map((entries) => ({
      entries: entries.map((entry) => {
        const at = entry.indexOf('=')
        return { key: entry.slice(0, at), value: entry.slice(at + 1) }
      }),
    })),
  }
}

export type { Metadata }
