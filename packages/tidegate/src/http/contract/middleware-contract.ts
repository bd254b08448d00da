/**
 * The contract of a middleware, as tests over real sockets: every framework answers the same
 * request with the same status, header fields and body.
 */

import { describe } from 'vitest'
import { describeAnswers } from './answers-contract.ts'
import { describeClients } from './clients-contract.ts'
import { describeOptions } from './options-contract.ts'
import { type StartServer, serverOpener } from './server-contract.ts'

export type {
  ContractOptions,
  ContractRequest,
  ContractRoutes,
  ContractServer,
  StartServer,
} from './server-contract.ts'

export function middlewareContract(name: string, start: StartServer): void {
  describe(`${name} keeps the middleware contract`, () => {
    const open = serverOpener(start)
    describeAnswers(open)
    describeOptions(open)
    describeClients(open)
  })
}
