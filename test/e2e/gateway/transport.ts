/** The transport of the gateways that tests start. */

import {
  type Transport,
  transports,
} from '../../../packages/server/src/policy/schema/listener-section.ts'

/** `TIDEGATE_TRANSPORT=node ./run.sh test e2e/gateway` runs all tests on the other transport. */
let current: Transport = transports.find((one) => one === process.env.TIDEGATE_TRANSPORT) ?? 'own'

/** For a file that runs tests of other files: to be called before they are imported. */
export function useTransport(transport: Transport): void {
  current = transport
}

export function transportOfTests(): Transport {
  return current
}
