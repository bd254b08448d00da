/** A header block that cannot be decoded, which ends its connection. */
export class HpackError extends Error {
  override readonly name = 'HpackError'
}
