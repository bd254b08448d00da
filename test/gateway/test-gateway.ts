/** A gateway for tests: a real listener on a free port, limits in memory, its log in a list. */

import { Writable } from 'node:stream'
import { memoryStore } from 'tidegate'
import { onTestFinished } from 'vitest'
import { jsonLogger } from '../../packages/server/src/gateway/logger.ts'
import { overloadSettings } from '../../packages/server/src/gateway/overload-settings.ts'
import {
  type GatewaySections,
  type RunningGateway,
  startGateway,
} from '../../packages/server/src/gateway/start-gateway.ts'
import { Overload } from '../../packages/server/src/overload/overload.ts'
import { createEnforcer } from '../../packages/server/src/policy/enforcer.ts'
import type { PolicyDocument } from '../../packages/server/src/policy/policy-schema.ts'
import { parsePolicy } from '../../packages/server/src/policy/read-policy.ts'
import { secretReader } from '../../packages/server/src/policy/secrets.ts'
import { LOOPBACK } from '../servers/ports.ts'

export interface TestGateway {
  readonly url: string
  readonly port: number
  readonly gateway: RunningGateway
  /** Its loop is not measured: a test says how late it is. */
  readonly overload: Overload
  close(): Promise<void>
  /** What was logged, a parsed line each. */
  logged(): Readonly<Record<string, unknown>>[]
  loggedText(): string
  /** Reads another policy, for everything that can change while it runs. */
  change(policy: object): void
}

export interface TestGatewayOptions {
  readonly environment?: Readonly<Record<string, string>>
  readonly folder?: string
}

/** Closed when the test ends. */
export async function startTestGateway(
  policy: object,
  { environment = {}, folder = '/' }: TestGatewayOptions = {},
): Promise<TestGateway> {
  const store = memoryStore()
  const lines: string[] = []
  const logger = jsonLogger(
    'trace',
    new Writable({
      write(chunk, _encoding, done) {
        lines.push(String(chunk))
        done()
      },
    }),
  )
  let document = documentOf(policy)
  let enforcer = createEnforcer(document, { store })
  const overload = new Overload(overloadSettings(document.gateway, document.upstreams))
  const gateway = await startGateway({
    sections: sectionsOf(document),
    policy: { enforcer: () => enforcer },
    overload,
    logger,
    readSecret: secretReader(environment, folder),
    folder,
  })
  onTestFinished(() => gateway.close())
  return {
    url: gateway.url,
    port: gateway.port,
    gateway,
    overload,
    close: () => gateway.close(),
    logged: () => lines.map((line) => JSON.parse(line)),
    loggedText: () => lines.join(''),
    change(other) {
      document = documentOf(other)
      gateway.reload(sectionsOf(document))
      enforcer = createEnforcer(document, { store })
    },
  }
}

/** Listens on the loopback address and stops quickly, unless a test says otherwise. */
function documentOf(policy: object): PolicyDocument {
  const own: { gateway?: { timeouts?: object } } = policy
  const timeouts = { unready: '10ms', drain: '2s', ...own.gateway?.timeouts }
  const gateway = { listen: { host: LOOPBACK, port: 0 }, ...own.gateway, timeouts }
  const result = parsePolicy({ ...policy, gateway })
  if (!result.ok) throw new Error(JSON.stringify(result.problems))
  return result.document
}

function sectionsOf(document: PolicyDocument): GatewaySections {
  return document
}
