/** Bearer tokens: https://www.rfc-editor.org/rfc/rfc6750 */

import { createHash, timingSafeEqual } from 'node:crypto'

/**
 * Returns a check of the `Authorization` header. It compares digests, which have one length, in
 * constant time, so that its duration reveals nothing about the token.
 */
export function bearerCheck(token: string): (header: string | undefined) => boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest()
  const expected = digest(token)
  return (header = '') => {
    // https://www.rfc-editor.org/rfc/rfc9110#section-11.1: the scheme is case-insensitive.
    const sent = /^bearer +(.*)$/i.exec(header)?.[1]
    return sent !== undefined && timingSafeEqual(digest(sent), expected)
  }
}
