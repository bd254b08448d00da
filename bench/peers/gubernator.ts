/** Gubernator as a single node. It counts in its own memory and has a protocol of its own. */

import { join } from 'node:path'
import {
  credentials,
  loadPackageDefinition,
  type ServiceClientConstructor,
  type ServiceError,
} from '@grpc/grpc-js'
import { loadSync } from '@grpc/proto-loader'
import { message } from '../../test/e2e/rls/raw-http2.ts'
import { freePort } from '../../test/support/servers/ports.ts'
import type { Program } from '../../tools/install/install-program.ts'
import type { Run } from '../harness/part.ts'
import { limits, type RlsService, untilCounting } from '../parts/rls/service.ts'
import { startPeer } from './start-peer.ts'

export const gubernator: Program = {
  name: 'Gubernator',
  variable: 'TIDEGATE_GUBERNATOR',
  file: 'gubernator/gubernator',
  goPackage: 'github.com/gubernator-io/gubernator/v2/cmd/gubernator@v2.13.0',
}

export async function startGubernator(
  run: Pick<Run, 'onStop'>,
  program: string,
  folder: string,
): Promise<RlsService> {
  const [port, http] = await Promise.all([freePort(), freePort()])
  const settings = {
    GUBER_GRPC_ADDRESS: `127.0.0.1:${port}`,
    GUBER_ADVERTISE_ADDRESS: `127.0.0.1:${port}`,
    GUBER_HTTP_ADDRESS: `127.0.0.1:${http}`,
    GUBER_PEER_DISCOVERY_TYPE: 'none',
    GUBER_LOG_LEVEL: 'error',
    OTEL_TRACES_SAMPLER: 'always_off',
  }
  const untilCounting = () => untilGubernatorCounts(port)
  await startPeer(run, { program, settings, folder, untilCounting })
  const { path, requestSerialize } = serviceClient().service.GetRateLimits ?? {}
  if (path === undefined || requestSerialize === undefined) throw new Error('no GetRateLimits')
  const body = (value: string) => message(requestSerialize(requestOf('tenant', value)))
  return { name: gubernator.name, isOurs: false, port, path, body }
}

interface Packages {
  readonly pb: { readonly gubernator: { readonly V1: ServiceClientConstructor } }
}

interface Answer {
  readonly responses: readonly { readonly status: string; readonly error: string }[]
}

function serviceClient(): ServiceClientConstructor {
  const options = { keepCase: true, longs: String, enums: String, defaults: true }
  const definition = loadSync(join(import.meta.dirname, 'gubernator.proto'), options)
  return (loadPackageDefinition(definition) as unknown as Packages).pb.gubernator.V1
}

async function untilGubernatorCounts(port: number): Promise<void> {
  const Client = serviceClient()
  const client = new Client(`127.0.0.1:${port}`, credentials.createInsecure())
  const call = client.GetRateLimits as unknown as (
    request: object,
    callback: (error: ServiceError | null, answer?: Answer) => void,
  ) => void
  const ask = (value: string) =>
    new Promise<boolean>((resolve, reject) => {
      call.call(client, requestOf('small', value), (failure, answer) => {
        const [response] = answer?.responses ?? []
        const error = failure ?? response?.error
        if (error || response === undefined) reject(new Error(String(error)))
        else resolve(response.status === 'UNDER_LIMIT')
      })
    })
  try {
    await untilCounting(gubernator.name, ask)
  } finally {
    client.close()
  }
}

function requestOf(name: 'tenant' | 'small', value: string): object {
  const { limit = 0, seconds = 0 } = limits.find(({ key }) => key === name) ?? {}
  const duration = seconds * 1_000
  return { requests: [{ name, unique_key: value, hits: 1, limit, duration }] }
}
