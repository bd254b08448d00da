/** The limits of a policy for operators: by `name`, and with a text for each part of a key. */

import type { Store } from 'tidegate'
import { makeLimit } from './compile/make-limit.ts'
import type { RequestLimit } from './compile/request-limit.ts'
import type { CounterAsked, FoundCounter, OperatedLimits } from './counters.ts'
import type { RulesInForce } from './enforcer.ts'
import type { LimitChange } from './limit-settings.ts'
import { liveKey } from './live/live-rules.ts'

export class PolicyLimits implements OperatedLimits {
  readonly #rules: RulesInForce
  readonly #store: Store

  constructor(rules: RulesInForce, store: Store) {
    this.#rules = rules
    this.#store = store
  }

  findCounter(asked: CounterAsked): FoundCounter | string {
    const { limits, tiers, overrides } = this.#rules
    const limit = this.#limitOf(asked.limit, asked.key, asked.kind)
    if (typeof limit === 'string') return limit
    const key = liveKey(limit, asked.key, asked.kind) ?? ''
    const { tier = tiers?.default ?? '' } = asked
    if (tier !== '' && tiers?.names.includes(tier) !== true) {
      const allowed = tiers === undefined ? 'the policy has none' : tiers.names.join(', ')
      return `tier: ${JSON.stringify(tier)} is not known; allowed: ${allowed}`
    }
    const root = limits.rootOf.get(limit)
    const outerKey = root === limit ? key : root && liveKey(root, asked.within ?? [])
    if (root !== undefined && outerKey === undefined) {
      return `within: ${limit.name} lies within ${root.name}, so the key of ${root.name} is needed`
    }
    const numbers = limit.compiled.limitFor(key, tier, overrides)
    const { hold: _, ...charge } = limit.compiled.chargeOf(key, 0, numbers, outerKey)
    return { limit: limit.name, charge: { ...charge, cost: 0 }, store: this.#store }
  }

  findCounters(key: readonly string[]): readonly FoundCounter[] {
    return this.#rules.limits.limits.flatMap((limit) => {
      if (limit.isOff || limit.settings.key === 'everyone') return []
      const found = this.findCounter({ limit: limit.name, key })
      return typeof found === 'string' ? [] : [found]
    })
  }

  keyProblem(name: string, key: readonly string[]): string | undefined {
    const limit = this.#limitOf(name, key)
    return typeof limit === 'string' ? limit : undefined
  }

  overrideProblem(name: string, key: readonly string[], set: LimitChange): string | undefined {
    const limit = this.#limitOf(name, key)
    if (typeof limit === 'string') return limit
    try {
      makeLimit(limit.settings, set)
      return undefined
    } catch (error) {
      return `set: ${(error as Error).message}`
    }
  }

  #limitOf(name: string, key: readonly string[], kind?: string): RequestLimit | string {
    const limit = this.#rules.limits.byName.get(name)
    if (limit === undefined) return `limit: no limit of the policy is named ${JSON.stringify(name)}`
    if (liveKey(limit, key, kind) !== undefined) return limit
    const { alternatives } = limit.key
    const labels = alternatives.map(({ label }) => label)
    if (kind !== undefined && !labels.includes(kind)) {
      return `kind: ${JSON.stringify(kind)} is not one of ${name}; allowed: ${labels.join(', ')}`
    }
    const named = alternatives[kind === undefined ? 0 : labels.indexOf(kind)]
    const texts = named?.parts === 1 ? 'one text' : `${named?.parts} texts`
    return `key: ${name} is counted by ${named?.label}, so it needs ${texts}`
  }
}
