/** Requests with idempotency keys: what became of them, and of the responses of executions. */

import type { IdempotencyEvent } from 'tidegate/idempotency'
import { counterFamily, gauge, type MetricFamily } from 'tidegate/metrics'

export type ReadInFlight = () => { readonly executing: number; readonly waiting: number }

export class IdempotencyMetrics {
  readonly #requests = counterFamily({
    name: 'tidegate_idempotency_requests_total',
    help: 'Requests with an idempotency key, by outcome.',
    labels: ['outcome'],
  })
  readonly #results = counterFamily({
    name: 'tidegate_idempotency_results_total',
    help: 'Executions of requests with an idempotency key, by what became of their response.',
    labels: ['result'],
  })
  #inFlight: ReadInFlight | undefined

  readonly observe = (event: IdempotencyEvent): void => {
    switch (event.type) {
      case 'executed':
      case 'replayed':
      case 'retried':
      case 'unprotected':
        this.#requests.of(event.type).value += 1
        return
      case 'refused':
        this.#requests.of(event.code.replaceAll('-', '_')).value += 1
        return
      case 'unavailable':
        return
      default:
        this.#results.of(event.type.replaceAll('-', '_')).value += 1
    }
  }

  /** Reads the requests in flight of the policy in force; undefined if it has no keys. */
  follow(read: ReadInFlight | undefined): void {
    this.#inFlight = read
  }

  read(): readonly MetricFamily[] {
    const { executing, waiting } = this.#inFlight?.() ?? {}
    const samples = Object.entries({ executing, waiting }).flatMap(([state, value]) =>
      value === undefined ? [] : [{ labels: { state }, value }],
    )
    return [
      this.#requests.read(),
      this.#results.read(),
      gauge('tidegate_idempotency_in_flight', 'Requests with a key that run or wait.', samples),
    ]
  }
}
