/** Several processes that share budgets on one Redis, and the errors they made together. */

import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { outcomes, type SharedAnswers, type SharedPlan } from './worker.ts'

export interface SharedErrors {
  readonly decisions: number
  /** Decided without Redis for any reason; these are not evaluated. */
  readonly degraded: number
  /** Admitted beyond the budget of a key. */
  readonly wronglyAdmitted: number
  /** Refused although the budget cannot have been spent in any order of the pending requests. */
  readonly wronglyRefused: number
  /** Units that were requested but never granted. */
  readonly unspent: number
  /**
   * The mean of |admitted − budget| / budget, over the keys that asked for more than their budget.
   */
  readonly rateError: number
  readonly seconds: number
}

export interface SharedProcesses {
  run(plan: Omit<SharedPlan, 'at' | 'processes'>): Promise<SharedErrors>
  stop(): Promise<void>
}

export function startShared(url: string, processes: number): SharedProcesses {
  const program = join(import.meta.dirname, 'worker.ts')
  const start = () => fork(program, [url], { execArgv: [], serialization: 'advanced' })
  const children = Array.from({ length: processes }, start)
  return {
    async run(plan) {
      await tellAll(children, (at) => ({ ...plan, processes, at }))
      const startMs = performance.now()
      const answers = (await tellAll(children, () => 'go')) as SharedAnswers[]
      const seconds = (performance.now() - startMs) / 1_000
      return { ...judge(answers, plan.limit), seconds }
    },
    async stop() {
      const ended = children.map((child) => child.exitCode === null && once(child, 'exit'))
      for (const child of children) if (child.connected) child.disconnect()
      await Promise.all(ended)
    },
  }
}

/** Sends every process a message and resolves with their answers. */
function tellAll(children: readonly ChildProcess[], messageOf: (at: number) => object | string) {
  const answers = children.map(answerOf)
  for (const [at, child] of children.entries()) child.send(messageOf(at))
  return Promise.all(answers)
}

function answerOf(child: ChildProcess): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const onExit = (code: number) => reject(new Error(`accuracy-worker.ts ended with ${code}`))
    child.once('exit', onExit)
    child.once('message', (message) => {
      child.off('exit', onExit)
      resolve(message)
    })
  })
}

interface KeyHistory {
  readonly admittedAskedNs: number[]
  readonly refusedAnsweredNs: number[]
}

/**
 * The order of the decisions in Redis is unknown, but bounded: every request that was admitted
 * before a refusal was sent before that refusal was answered. So a refusal is certainly wrong if
 * fewer requests than the budget had been sent and admitted by then.
 */
export function judge(
  all: readonly SharedAnswers[],
  budget: number,
): Omit<SharedErrors, 'seconds'> {
  const { histories, decisions, degraded } = gather(all)
  let [wronglyAdmitted, wronglyRefused, unspent, error, exceeded] = [0, 0, 0, 0, 0]
  for (const { admittedAskedNs, refusedAnsweredNs } of histories.values()) {
    const admitted = admittedAskedNs.length
    const asked = admitted + refusedAnsweredNs.length
    admittedAskedNs.sort((one, other) => one - other)
    const spentAtNs = admittedAskedNs[budget - 1] ?? Number.POSITIVE_INFINITY
    wronglyAdmitted += Math.max(0, admitted - budget)
    wronglyRefused += refusedAnsweredNs.filter((atNs) => atNs < spentAtNs).length
    unspent += Math.max(0, Math.min(asked, budget) - admitted)
    if (asked <= budget) continue
    exceeded++
    error += Math.abs(admitted - budget) / budget
  }
  const rateError = exceeded === 0 ? 0 : error / exceeded
  return { decisions, degraded, wronglyAdmitted, wronglyRefused, unspent, rateError }
}

function gather(all: readonly SharedAnswers[]) {
  const histories = new Map<number, KeyHistory>()
  let [decisions, degraded] = [0, 0]
  for (const { keys, askedNs, answeredNs, outcomes: results } of all) {
    for (const [at, key] of keys.entries()) {
      decisions++
      const history = histories.get(key) ?? { admittedAskedNs: [], refusedAnsweredNs: [] }
      histories.set(key, history)
      const outcome = results[at]
      if (outcome === outcomes.degraded) degraded++
      else if (outcome === outcomes.admitted) history.admittedAskedNs.push(askedNs[at] as number)
      else history.refusedAnsweredNs.push(answeredNs[at] as number)
    }
  }
  return { histories, decisions, degraded }
}
