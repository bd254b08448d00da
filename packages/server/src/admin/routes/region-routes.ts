/** Regions that are lost for good: to forget one, and to remember it after it left the list. */

import { z } from 'zod'
import { forgottenKey, type StoredForgotten } from '../../control/live/forgotten-regions.ts'
import { reason } from '../../control/plain-text.ts'
import { ApiError } from '../../http-api/api-error.ts'
import { name } from '../../policy/schema/field-types.ts'
import { changeEntry, removeEntry } from '../change-entry.ts'
import { forgottenChange, removal } from '../responses/entry-responses.ts'
import { statusResponse } from '../responses/status-responses.ts'
import { type AdminContext, type Call, type Route, route } from '../route.ts'

const regionBody = z.strictObject({ region: name.describe('The name of a region.'), why: reason })

export const regionRoutes: readonly Route[] = [
  route({
    method: 'PUT',
    path: '/v1/regions/forgotten',
    role: 'admin',
    action: 'region.forget',
    summary: 'Give up a region that is lost for good: its keys get another home',
    response: forgottenChange,
    body: regionBody,
    handle: forget,
  }),
  route({
    method: 'POST',
    path: '/v1/regions/forgotten/remove',
    role: 'admin',
    action: 'region.remember',
    summary: 'Forget that a region was given up, after it left the list of regions',
    response: removal,
    body: regionBody,
    handle: remember,
  }),
]

type RegionCall = Call<z.output<typeof regionBody>>

async function forget(call: RegionCall) {
  const { region, why } = call.body
  const { self, others } = regionsOf(call.context)
  if (region === self) throw new ApiError(422, `region: this node is in the region ${self}`)
  const peer = others.get(region)
  const allowed = `allowed: ${[...others.keys()].join(', ') || 'none'}`
  if (peer === undefined) throw new ApiError(422, `region: the list does not have it; ${allowed}`)
  // Its nodes would go on to decide about the keys that get another home.
  if (peer.up) throw new ApiError(409, `The region ${region} answers. Stop its nodes first.`)
  const { entries } = await call.context.control.range(forgottenKey(region))
  if (entries.length > 0) throw new ApiError(409, `The region ${region} is forgotten already.`)
  const at = new Date().toISOString()
  const value: StoredForgotten = { region, by: call.caller.name, at, why }
  const target = { type: 'region', id: region }
  return changeEntry(call, {
    ...{ key: forgottenKey(region), value, action: 'region.forget', target, why },
  })
}

async function remember(call: RegionCall) {
  const { region, why } = call.body
  const { self, others } = regionsOf(call.context)
  // Its keys have counters at another home, and would have a second one.
  if (region === self || others.has(region)) {
    throw new ApiError(409, `The list of regions has ${region}. Remove it from the list first.`)
  }
  const target = { type: 'region', id: region }
  return removeEntry(call, { key: forgottenKey(region), action: 'region.remember', target, why })
}

function regionsOf({ status }: AdminContext) {
  const { data } = statusResponse.shape.regions.safeParse(
    (status() as { readonly regions?: unknown }).regions,
  )
  if (data === undefined) return { self: undefined, others: new Map() }
  return { self: data.self, others: new Map(data.peers.map((peer) => [peer.region, peer])) }
}
