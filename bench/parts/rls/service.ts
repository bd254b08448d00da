/** The contract of a contender in the part `rls`, for every vendor and protocol. */

import { message, rateLimitRequest, SHOULD_RATE_LIMIT } from '../../../test/e2e/rls/raw-http2.ts'
import { request, rlsClient } from '../../../test/e2e/rls/rls-client.ts'
import { until } from '../../../test/support/servers/until.ts'

export interface RlsService {
  readonly name: string
  readonly isOurs: boolean
  readonly port: number
  /** The path of the measured call. */
  readonly path: string
  /** The body of a call that counts for this value, framed as gRPC does it. */
  body(value: string): Buffer
}

/** A limit that is never reached, to measure counting, and a small one to check refusals. */
export const limits = [
  { key: 'tenant', limit: 1_000_000_000, unit: 'second', seconds: 1 },
  { key: 'small', limit: 2, unit: 'hour', seconds: 3_600 },
] as const

/** The path and the bodies of all that speak Envoy's protocol. */
export const envoyCalls: Pick<RlsService, 'path' | 'body'> = {
  path: SHOULD_RATE_LIMIT,
  body: (value) => message(rateLimitRequest('bench', 'tenant', value)),
}

/** Resolves to whether a hit on that value is within the small limit. */
export type Ask = (value: string) => Promise<boolean>

/**
 * Waits until the service admits two hits and refuses the third, because load does not read
 * responses.
 */
export async function untilCounting(name: string, ask: Ask): Promise<void> {
  let tries = 0
  await until(`${name} admits two hits of a value and refuses the third`, async () => {
    const value = `v${tries++}`
    const isAdmitted = [await ask(value), await ask(value), await ask(value)]
    return isAdmitted.join() === 'true,true,false'
  })
}

/** `untilCounting` for services of Envoy's protocol, with a stock client. */
export async function untilCountingByEnvoy({ name, port }: Pick<RlsService, 'name' | 'port'>) {
  const client = rlsClient(port)
  try {
    await untilCounting(name, async (value) => {
      const { overall_code: code } = await client.ask(request('bench', [`small=${value}`]))
      return code === 'OK'
    })
  } finally {
    client.close()
  }
}
