/**
 * The policy file: every section with its allowed values and defaults. Types, the JSON Schema and
 * the reference page are made from this description.
 */

import { z } from 'zod'
import { adminSection } from './admin-section.ts'
import { authSection } from './auth-section.ts'
import { controlSection } from './control/control-section.ts'
import { corsSection } from './cors-section.ts'
import { decisionApiSection } from './decision-api-section.ts'
import { name } from './field-types.ts'
import { idempotencySection } from './idempotency/idempotency-section.ts'
import { ipListsSection, limitsSection, overridesSection } from './limits-section.ts'
import { gatewaySection } from './listener-section.ts'
import { digestsSection } from './logs/digests-section.ts'
import { logSection } from './logs/log-section.ts'
import { rateLimitServiceSection } from './rate-limit-service-section.ts'
import { regionsSection } from './regions/regions-section.ts'
import { routesSection } from './routes-section.ts'
import { storeSection } from './store-section.ts'
import { tiersSection } from './tiers-section.ts'
import { upstreamsSection } from './upstreams-section.ts'

export const policySchema = z.strictObject({
  version: z.literal(1).default(1).describe('The version of this format.'),
  enabled: z.boolean().default(true).describe('False admits all requests without counting them.'),
  region: name
    .optional()
    .describe('The region of this node, for `match.region` and the key `region`.'),
  regions: regionsSection.describe('Limits that several regions share.'),
  store: storeSection.prefault({}).describe('The store of the counters.'),
  gateway: gatewaySection.describe('How clients reach the gateway.'),
  cors: corsSection
    .optional()
    .describe('CORS for pages of other origins; without it, CORS is left to the upstreams.'),
  ipLists: ipListsSection,
  auth: authSection.describe('How callers are authenticated.'),
  upstreams: upstreamsSection.describe('Where requests are forwarded to, by name.'),
  routes: routesSection,
  tiers: tiersSection.optional(),
  limits: limitsSection,
  overrides: overridesSection,
  idempotency: idempotencySection.optional(),
  log: logSection.describe('What is logged.'),
  digests: digestsSection.describe('The digests of clients and keys in logs and top lists.'),
  decisionApi: decisionApiSection.optional(),
  rateLimitService: rateLimitServiceSection.optional(),
  admin: adminSection.describe('A listener for operators.'),
  control: controlSection.describe('Changes of operators for a whole fleet.'),
})

export type PolicyDocument = z.output<typeof policySchema>
