/**
 * The whole policy file: every section, what may stand in it and what holds where nothing does.
 * Types, the JSON Schema and the reference page are all made from this one description.
 */

import { z } from 'zod'
import { decisionApiSection } from './decision-api-section.ts'
import { name } from './fields.ts'
import {
  adminSection,
  authSection,
  gatewaySection,
  logSection,
  routesSection,
  upstreamsSection,
} from './gateway-section.ts'
import { ipListsSection, limitsSection, overridesSection } from './limits-section.ts'
import { storeSection } from './store-section.ts'
import { tiersSection } from './tiers-section.ts'

export const policySchema = z.strictObject({
  version: z.literal(1).default(1).describe('The version of this format.'),
  enabled: z.boolean().default(true).describe('False admits everything without counting.'),
  region: name.optional().describe('Where this node is, for `match.region` and the key `region`.'),
  store: storeSection.prefault({}).describe('Where the counters are.'),
  gateway: gatewaySection.describe('How clients reach the gateway.'),
  ipLists: ipListsSection,
  auth: authSection.describe('Who is asking.'),
  upstreams: upstreamsSection.describe('Where requests are forwarded to, by name.'),
  routes: routesSection,
  tiers: tiersSection.optional(),
  limits: limitsSection,
  overrides: overridesSection,
  log: logSection.describe('What is logged.'),
  decisionApi: decisionApiSection.optional(),
  admin: adminSection.describe('A listener for those who run the gateway.'),
})

export type PolicyDocument = z.output<typeof policySchema>
