/**
 * The logs of requests of a service: one bound and one digest for the lines of all doors, and the
 * access log of the gateway.
 */

import { randomBytes } from 'node:crypto'
import { resolve } from 'node:path'
import type { MetricFamily, MetricSample } from 'tidegate/metrics'
import type { ReadSecret } from '../../config/secrets.ts'
import { DecisionLog } from '../../observability/decision-log.ts'
import { type Digest, keyedDigest } from '../../observability/digests.ts'
import type { Emit } from '../../observability/events.ts'
import { LineBudget } from '../../observability/line-budget.ts'
import { AccessLog } from '../../observability/lines/access-log.ts'
import { clientAddress } from '../../observability/lines/client-address.ts'
import { LineSink } from '../../observability/lines/line-sink.ts'
import type { LeastLevel } from '../../observability/log-level.ts'
import { throttle } from '../../observability/throttle.ts'
import type { AccessLogSection } from '../../policy/schema/logs/access-log-section.ts'
import type { PolicyDocument } from '../../policy/schema/policy-schema.ts'
import { type Environment, SettingError } from '../environment.ts'
import { checkedToken } from '../operators/admin-access.ts'

/** Set for workers: the secret of digests that they share if the policy has none. */
export const DIGEST_VARIABLE = 'TIDEGATE_WORKER_DIGEST_SECRET'

export interface RequestLogOptions {
  readonly document: PolicyDocument
  /** File names in the policy begin here. */
  readonly folder: string
  readonly environment: Environment
  readonly readSecret: ReadSecret
  readonly emit: Emit
  readonly level: LeastLevel
  /** The version of the policy in force. */
  readonly policyVersion: () => string
  /** The standard output of the process, if lines go there. */
  readonly stdout: LineSink | undefined
  /** True if other processes serve the same listeners. */
  readonly isWorker: boolean
  readonly hasGateway: boolean
}

export class RequestLog {
  readonly digest: Digest
  readonly decisions: DecisionLog
  readonly accessLog: AccessLog | undefined
  readonly #options: RequestLogOptions
  /** The file of the access log. */
  readonly #file: LineSink | undefined

  /** Throws SettingError if the file of the access log cannot be opened. */
  constructor(options: RequestLogOptions) {
    const { document, emit, hasGateway, policyVersion } = options
    this.#options = options
    this.digest = keyedDigest(digestSecret(options))
    this.decisions = new DecisionLog(new LineBudget(emit), this.digest, policyVersion)
    this.use(document)
    const { accessLog: section } = document.gateway
    if (section === undefined || !hasGateway) return
    this.#file = section.file === undefined ? undefined : openFile(section.file, options)
    const sink = this.#file ?? options.stdout ?? new LineSink(1)
    this.accessLog = new AccessLog(sink, this.#accessOptions(section))
  }

  /** Applies another policy. The level stays, because the writer of the lines has it as well. */
  use({ log, region }: PolicyDocument): void {
    const { level } = this.#options
    this.decisions.use({ ...log, level, region })
  }

  /** Opens the file of the access log by its name again. */
  reopen(): void {
    if (this.#file === undefined) return
    const { emit } = this.#options
    try {
      this.#file.reopen()
      emit({ type: 'log-reopened', log: 'access', problem: undefined })
    } catch (error) {
      const problem = error instanceof Error ? error.message : String(error)
      emit({ type: 'log-reopened', log: 'access', problem })
    }
  }

  async close(): Promise<void> {
    await this.#file?.close()
  }

  read(): readonly MetricFamily[] {
    const { stdout } = this.#options
    const { leftOut } = this.decisions.lines
    const samples = [
      { labels: { sink: 'stdout', reason: 'rate' }, value: leftOut },
      ...dropped('stdout', stdout),
      ...dropped('file', this.#file),
    ]
    return [
      {
        name: 'tidegate_log_lines_left_out_total',
        help: 'Log lines beyond the bound, or that could not be written.',
        type: 'counter',
        samples,
      },
    ]
  }

  #accessOptions(section: AccessLogSection) {
    const { region } = this.#options.document
    const { nodeId } = this.decisions.lines
    const address = clientAddress(section.addresses, this.digest)
    return { ...section, address, nodeId, region }
  }
}

function dropped(name: string, sink: LineSink | undefined): readonly MetricSample[] {
  return Object.entries(sink?.dropped ?? {}).map(([reason, value]) => {
    return { labels: { sink: name, reason }, value }
  })
}

function openFile(file: string, { folder, emit, isWorker }: RequestLogOptions): LineSink {
  const mayReport = throttle()
  const onFailed = (reason: string) => {
    if (mayReport()) emit({ type: 'log-failed', log: 'access', reason })
  }
  try {
    return new LineSink(resolve(folder, file), { onFailed, isShared: isWorker })
  } catch (error) {
    const { code = 'unknown' } = error as { readonly code?: string }
    throw new SettingError(`gateway.accessLog.file ${file}: cannot be opened (${code})`)
  }
}

/**
 * That of the policy, or one from the first token of the admin API, which all nodes with it share.
 * Without either it is random, and digests change when the process starts again.
 */
function digestSecret({ document, readSecret, environment }: RequestLogOptions): string | Buffer {
  const { digests, admin } = document
  if (digests !== undefined) {
    return checkedToken(readSecret(digests.secret, 'digests.secret'), 'digests.secret')
  }
  if (admin?.token !== undefined) return `digests ${readSecret(admin.token, 'admin.token')}`
  return environment[DIGEST_VARIABLE] ?? randomBytes(32)
}
