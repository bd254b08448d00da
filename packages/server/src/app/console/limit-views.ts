/** The limits of a policy in words, for the console. */

import type { LimitView } from '../../admin/console/console-types.ts'
import type { LimitSet } from '../../limits/compile/limit-set.ts'
import type { MatchSettings } from '../../limits/limit-settings.ts'
import { settingsText } from './what-if.ts'

export function limitViews({ limits }: LimitSet): readonly LimitView[] {
  return limits.map(({ settings, key }) => {
    const { name, mode, algorithm, limit, rollout, within = null } = settings
    const [first] = key.alternatives
    const tiers = Object.entries(settings.tiers ?? {}).map(([tier, change]) => {
      const { burst: _, ...rest } = settings
      const base = change.limit === undefined ? settings : rest
      return [tier, settingsText({ ...base, mode: 'enforce', rollout: 100 }, change)] as const
    })
    return {
      ...{ name, mode, algorithm, limit, rollout, within },
      numbers: settingsText({ ...settings, mode: 'enforce', rollout: 100 }),
      tiers: Object.fromEntries(tiers),
      key: key.alternatives.map(({ label }) => label).join(', else '),
      keyParts: first?.parts ?? 1,
      match: matchText(settings.match),
    }
  })
}

function matchText(match: MatchSettings | undefined): string {
  const { methods, path, headers, region, domain, descriptor } = match ?? {}
  const parts = [
    ...(methods === undefined ? [] : [methods.join(' or ')]),
    ...(path === undefined ? [] : [path.join(' or ')]),
    ...(region === undefined ? [] : [`region ${region}`]),
    ...(domain === undefined ? [] : [`domain ${domain.join(' or ')}`]),
    ...Object.entries(headers ?? {}).map(([name, values]) => `${name}: ${values.join(' or ')}`),
    ...Object.entries(descriptor ?? {}).map(([name, values]) => `${name}=${values.join(' or ')}`),
  ]
  return parts.length === 0 ? 'all requests' : parts.join(', ')
}
