/** Bounds of keys, values and transactions. They are the same for every store. */

import { ControlError } from './control-error.ts'
import type { Condition, Write } from './key-value.ts'

/** Longer than any key of ours. Paths hold digests, not values of clients. */
export const KEY_LENGTH_MAX = 512

/** etcd accepts requests of 1.5 MiB, in which a value in base64 takes a third more. */
export const VALUE_BYTES_MAX = 1024 ** 2

/** The default of etcd is 128 operations for each branch of a transaction. */
export const OPERATIONS_MAX = 100

/** Together with base64 and the other fields, this stays below the 1.5 MiB of etcd. */
export const TRANSACTION_BYTES_MAX = 1_100_000

/** Printable ASCII without spaces, which sorts alike in every store. */
const KEY = /^[\x21-\x7e]+$/

/** Throws ControlError `out-of-bounds` if a store could not apply the transaction. */
export function checkTransaction(conditions: readonly Condition[], writes: readonly Write[]): void {
  if (conditions.length > OPERATIONS_MAX || writes.length > OPERATIONS_MAX) {
    throw outOfBounds(`a transaction has at most ${OPERATIONS_MAX} conditions and writes`)
  }
  for (const { key } of conditions) checkKey(key)
  const written = new Set<string>()
  let bytes = 0
  for (const { key, value } of writes) {
    checkKey(key)
    if (written.has(key)) throw outOfBounds(`a transaction writes ${key} only once`)
    written.add(key)
    const valueBytes = value === undefined ? 0 : Buffer.byteLength(value)
    if (valueBytes > VALUE_BYTES_MAX) {
      throw outOfBounds(`${key}: ${valueBytes} bytes; allowed: ${VALUE_BYTES_MAX}`)
    }
    bytes += valueBytes
  }
  if (bytes <= TRANSACTION_BYTES_MAX) return
  throw outOfBounds(`a transaction of ${bytes} bytes; allowed: ${TRANSACTION_BYTES_MAX}`)
}

function checkKey(key: string): void {
  if (key.length <= KEY_LENGTH_MAX && KEY.test(key)) return
  const shown = JSON.stringify(key.slice(0, 80))
  throw outOfBounds(`key ${shown}; allowed: 1 to ${KEY_LENGTH_MAX} printable ASCII characters`)
}

function outOfBounds(message: string): ControlError {
  return new ControlError('out-of-bounds', message)
}
