/** Refuses requests that were found invalid while they were read. */

import type { Stage } from '../pipeline.ts'

export function refuseInvalid(): Stage {
  return (request, next) => request.problem ?? next(request)
}
