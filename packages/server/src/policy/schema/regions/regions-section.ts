/**
 * The section `regions` of a policy and the field `regions` of a limit: how one limit applies to
 * several regions. Conditions between fields are in region-rules.ts.
 */

import { z } from 'zod'
import { duration, fileName, hostAndPort, integer, listen, name, secret } from '../field-types.ts'

/** How the regions share a limit. Without a mode, every region has the whole limit. */
export const regionModes = ['partition', 'shared', 'home', 'escrow'] as const

export type RegionMode = (typeof regionModes)[number]

/** Decisions about a key whose home region cannot be reached. */
export const cutOffModes = ['reserve', 'closed', 'open', 'local'] as const

export type CutOffMode = (typeof cutOffModes)[number]

/** A region has a connection to each of the others. */
export const REGIONS_MAX = 16

const SHARE_MAX = 1_000

const DEADLINE_MS_MIN = 50
const DEADLINE_MS_MAX = 5_000

/** More would leave little for the region that a client really uses. */
const RESERVE_PERCENT_MAX = 50

const region = z.strictObject({
  endpoint: hostAndPort.describe('`host:port` of the link listeners of the region.'),
  share: integer(1, SHARE_MAX)
    .default(1)
    .describe('Its part of all shares: of limits with `partition`, and of the homes of keys.'),
})

const link = z.strictObject({
  listen: listen.describe('The listener for other regions. Without a host: 0.0.0.0.'),
  cert: fileName.describe('The certificate of this region, with its name as a DNS name. PEM.'),
  key: fileName.describe('The private key of the certificate, a PEM file.'),
  ca: fileName.describe('The CA that has signed the certificates of all regions, a PEM file.'),
  token: secret
    .optional()
    .describe('A token that all regions share. Without it, regions need client certificates.'),
  deadline: duration
    .refine((ms) => ms >= DEADLINE_MS_MIN && ms <= DEADLINE_MS_MAX, {
      error: 'a time from 50ms to 5s, at least twice the round trip between regions',
    })
    .default(250)
    .describe('How long another region may take to answer; then `onCutOff` decides.'),
})

export const regionsSection = z
  .strictObject({
    list: z
      .record(name, region)
      .refine((list) => isBetween(Object.keys(list).length, 2, REGIONS_MAX), {
        error: `2 to ${REGIONS_MAX} regions by name`,
      })
      .describe('All regions by name, this one included. A name always means the same place.'),
    link: link.optional().describe('The link between regions, for all modes but `partition`.'),
  })
  .optional()

export const limitRegions = z.strictObject({
  mode: z
    .enum(regionModes)
    .describe(
      '`partition`: each region has its share. `shared`: regions exchange counts, and a region ' +
        'that is alone gets the whole limit within seconds. `home`: one region decides about a ' +
        'key. `escrow`: regions lease units from the home of a key, and decide without the link.',
    ),
  blind: integer(1, REGIONS_MAX)
    .optional()
    .describe(
      'For `shared`: how many shares a region may use before the others have counted them, up to ' +
        'the number of regions. More are more units beyond the limit in a burst. 1.',
    ),
  reserve: z
    .number()
    .min(0)
    .max(RESERVE_PERCENT_MAX)
    .optional()
    .describe('For `home` and `escrow`: the percentage that regions keep for themselves. 10.'),
  onCutOff: z
    .enum(cutOffModes)
    .optional()
    .describe(
      'For `home` and `escrow`, if the home of a key cannot be reached: only the reserve (the ' +
        'default), refuse with 503, admit, or the share of this region.',
    ),
})

export type RegionsSection = NonNullable<z.output<typeof regionsSection>>
export type LimitRegions = z.output<typeof limitRegions>

function isBetween(count: number, min: number, max: number): boolean {
  return count >= min && count <= max
}
