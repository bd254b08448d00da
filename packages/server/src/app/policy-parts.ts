/** Which parts of a policy a service is started with. */

import { type RlsSettings, rlsDefaults } from '../rls/settings.ts'
import { SettingError } from './environment.ts'
import type { PolicyConfig } from './policy-config.ts'
import type { GatewayPart, PolicyServiceParts } from './policy-service.ts'
import { rlsSectionSettings } from './rls-section.ts'

/** The gateway with the decision API and the listener for operators, if they have sections. */
export function gatewayParts(gateway: GatewayPart): PolicyServiceParts {
  return { gateway, apis: true, rateLimitService: undefined }
}

/** The rate limit service alone. The section of the policy replaces the listeners of `settings`. */
export function rlsParts({ policy, folder }: PolicyConfig, settings: RlsSettings) {
  const section = policy.value.document.rateLimitService
  const rateLimitService =
    section === undefined ? settings : rlsSectionSettings(section, folder, settings)
  return { gateway: undefined, apis: false, rateLimitService }
}

/** Everything that the policy has a section for. Throws SettingError if there is nothing. */
export function sectionParts(
  { policy, folder }: PolicyConfig,
  gateway: GatewayPart,
): PolicyServiceParts {
  const { upstreams, rateLimitService: section, decisionApi } = policy.value.document
  const hasGateway = Object.keys(upstreams).length > 0
  if (!hasGateway && section === undefined && decisionApi === undefined) {
    const sections = 'upstreams, decisionApi and rateLimitService'
    throw new SettingError(`the policy has nothing to serve; allowed: at least one of ${sections}`)
  }
  const base = { ...rlsDefaults, http: undefined, debug: undefined }
  return {
    gateway: hasGateway ? gateway : undefined,
    apis: true,
    rateLimitService: section && rlsSectionSettings(section, folder, base),
  }
}
