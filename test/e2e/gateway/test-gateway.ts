/** A gateway for tests: a real listener on a free port, limits in memory, its log in a list. */

import { resolve } from 'node:path'
import { Writable } from 'node:stream'
import { memoryStore, type Store } from 'tidegate'
import {
  type IdempotencyEvent,
  type IdempotencyStore,
  memoryIdempotencyStore,
} from 'tidegate/idempotency'
import { onTestFinished } from 'vitest'
import { secretReader } from '../../../packages/server/src/config/secrets.ts'
import {
  type GatewaySections,
  type RunningGateway,
  startGateway,
} from '../../../packages/server/src/gateway/gateway.ts'
import { overloadSettings } from '../../../packages/server/src/gateway/overload-settings.ts'
import { createEnforcer } from '../../../packages/server/src/limits/enforcer.ts'
import { FailedAttempts } from '../../../packages/server/src/limits/failed-attempts.ts'
import { DecisionLog } from '../../../packages/server/src/observability/decision-log.ts'
import { keyedDigest } from '../../../packages/server/src/observability/digests.ts'
import { logEvents } from '../../../packages/server/src/observability/event-log.ts'
import { LineBudget } from '../../../packages/server/src/observability/line-budget.ts'
import { jsonLines, jsonLogger } from '../../../packages/server/src/observability/logger.ts'
import { Overload } from '../../../packages/server/src/overload/overload.ts'
import { readKeyFile } from '../../../packages/server/src/policy/api-keys/key-file.ts'
import type { KeyTable } from '../../../packages/server/src/policy/api-keys/key-table.ts'
import { parsePolicy } from '../../../packages/server/src/policy/read-policy.ts'
import type { PolicyDocument } from '../../../packages/server/src/policy/schema/policy-schema.ts'
import { LOOPBACK } from '../../support/servers/ports.ts'
import { transportOfTests } from './transport.ts'

export interface TestGateway {
  readonly url: string
  readonly port: number
  readonly gateway: RunningGateway
  /** Its event loop is not measured: the test sets the delay. */
  readonly overload: Overload
  close(): Promise<void>
  /** The parsed lines of the log. */
  logged(): Readonly<Record<string, unknown>>[]
  loggedText(): string
  /** Applies another policy, as a reload does. */
  change(policy: object): void
}

export interface TestGatewayOptions {
  readonly environment?: Readonly<Record<string, string>>
  readonly folder?: string
  /** Default: one in memory. */
  readonly store?: Store
  /** The store of idempotency keys. Default: one in memory. */
  readonly keyStore?: IdempotencyStore
  readonly onIdempotency?: (event: IdempotencyEvent) => void
}

/** Closed when the test ends. */
export async function startTestGateway(
  policy: object,
  options: TestGatewayOptions = {},
): Promise<TestGateway> {
  const { environment = {}, folder = '/', store = memoryStore(), onIdempotency } = options
  const keyStore = options.keyStore ?? memoryIdempotencyStore()
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
  const failures = new FailedAttempts(document.auth.failures)
  const digest = keyedDigest('a secret of the tests')
  const decisions = new DecisionLog(new LineBudget(logEvents(jsonLines(logger))), digest)
  const useLog = ({ log, region }: PolicyDocument) => {
    decisions.use({ ...log, level: 'trace', region })
  }
  useLog(document)
  const gateway = await startGateway({
    sections: sectionsOf(document),
    keyTable: keyTableOf(document, folder),
    policy: { enforcer: () => enforcer },
    failures,
    overload,
    decisions,
    digest,
    openKeyStore: () => keyStore,
    onIdempotency,
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
      gateway.prepare(sectionsOf(document), keyTableOf(document, folder))()
      failures.use(document.auth.failures)
      useLog(document)
      enforcer = createEnforcer(document, { store })
    },
  }
}

/** Adds defaults: listens on the loopback address and stops quickly. */
function documentOf(policy: object): PolicyDocument {
  const own: { gateway?: { timeouts?: object } } = policy
  const timeouts = { unready: '10ms', drain: '2s', ...own.gateway?.timeouts }
  const transport = transportOfTests()
  const gateway = { listen: { host: LOOPBACK, port: 0 }, transport, ...own.gateway, timeouts }
  const result = parsePolicy({ ...policy, gateway })
  if (!result.ok) throw new Error(JSON.stringify(result.problems))
  return result.document
}

function keyTableOf({ auth }: PolicyDocument, folder: string): KeyTable | undefined {
  if (auth.apiKeys === undefined) return undefined
  const { file } = auth.apiKeys
  const result = readKeyFile({ path: resolve(folder, file), file, knownDigest: undefined })
  if (result.ok && result.table !== 'known') return result.table
  throw new Error(JSON.stringify(result))
}

function sectionsOf(document: PolicyDocument): GatewaySections {
  return document
}
