/** Why the body of a request failed. */

export type BodyErrorCode =
  | 'TIDEGATE_BODY_ABORTED'
  | 'TIDEGATE_BODY_INVALID'
  | 'TIDEGATE_BODY_TOO_LARGE'
  | 'TIDEGATE_BODY_TOO_SLOW'
  | 'TIDEGATE_TRAILERS_TOO_LARGE'

export function bodyError(code: BodyErrorCode): Error {
  return Object.assign(new Error(`the body of the request failed: ${code}`), { code })
}
