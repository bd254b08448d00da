/** A service with a policy, as operators change it. */

import type { ExplainAsked } from '../../admin/route.ts'
import { ApiError } from '../../http-api/api-error.ts'
import { PolicyLimits } from '../../limits/policy-limits.ts'
import type { Digest } from '../../observability/digests.ts'
import type { OperatedService } from '../control-room.ts'
import { SettingError } from '../environment.ts'
import { explainLive, InputError } from '../explain/explain-policy.ts'
import type { PolicyControl } from '../policy-config.ts'
import type { PolicyRuntime } from '../policy-runtime.ts'

export function operatedPolicy(
  runtime: PolicyRuntime,
  control: PolicyControl | undefined,
): OperatedService {
  return {
    useLive: (entries) => runtime.useLive(entries),
    forgetRegions: (regions) => runtime.regions?.forget(regions),
    limits: () => new PolicyLimits(runtime.enforcer().rules(), runtime.store.store),
    status: () => runtime.status(),
    explain: (input, digest) => explainAsked(runtime, input, digest),
    async check(text) {
      const loaded = await control?.load(text)
      if (loaded === undefined) return []
      if (!loaded.ok) return loaded.problems.map(({ message }) => message)
      const problem = runtime.problemOf(loaded.value)
      return problem === undefined ? [] : [problem]
    },
  }
}

async function explainAsked(
  runtime: PolicyRuntime,
  input: ExplainAsked,
  digest: Digest,
): Promise<object> {
  if (input.domain !== undefined || input.descriptors !== undefined) {
    throw new ApiError(422, "domain, descriptors: only a service with Envoy's files has them")
  }
  const { policy, readSecret, enforcer } = runtime
  const headers = new Map(
    Object.entries(input.headers).map(([name, value]) => [name.toLowerCase(), value]),
  )
  try {
    const parts = { policy, readSecret, enforcer: enforcer() }
    const { facts, explained } = await explainLive(parts, { ...input, headers })
    const { method, path, ip } = facts
    const limits = explained.limits.map((limit) =>
      limit.applies ? { ...limit, keyHash: digest(limit.key) } : limit,
    )
    return { request: { method, path, ip }, ...explained, limits }
  } catch (error) {
    const isKnown = error instanceof InputError || error instanceof SettingError
    throw isKnown ? new ApiError(422, error.message) : error
  }
}
