/** The settings of the rate limit service from the section `rateLimitService` of a policy. */

import { resolve } from 'node:path'
import type { PolicyDocument } from '../policy/schema/policy-schema.ts'
import type { RateLimitServiceSection } from '../policy/schema/rate-limit-service-section.ts'
import type { RlsServerSettings } from '../rls/settings.ts'

/** Fields of the section replace those of `base`. Relative file names begin at `folder`. */
export function rlsSectionSettings(
  section: RateLimitServiceSection,
  folder: string,
  base: RlsServerSettings,
): RlsServerSettings {
  const { listen, tls, http, debug } = section
  return {
    ...base,
    grpc: addressOf(listen, '0.0.0.0'),
    ...(http === undefined ? undefined : { http: addressOf(http, '0.0.0.0') }),
    ...(debug === undefined ? undefined : { debug: addressOf(debug, '127.0.0.1') }),
    ...(tls === undefined
      ? undefined
      : {
          tls: {
            cert: resolve(folder, tls.cert),
            key: resolve(folder, tls.key),
            clientCa: tls.clientCa === undefined ? undefined : resolve(folder, tls.clientCa),
            clientNames: tls.clientNames,
          },
        }),
  }
}

function addressOf(
  { host, port }: RateLimitServiceSection['listen'],
  otherwise: string,
): { readonly host: string; readonly port: number } {
  return { host: host ?? otherwise, port }
}

/** One line for each limit, for the debug page. */
export function limitsText({ limits }: PolicyDocument): string {
  return limits.map((limit) => `${limit.name}: ${JSON.stringify(limit)}\n`).join('')
}
