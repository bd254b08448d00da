/**
 * Which requests were charged before: those that an owner before has begun. A limit that counts
 * each key once skips them.
 */

const charged = new WeakSet<object>()

export function markCharged(request: object): void {
  charged.add(request)
}

/**
 * True if a request repeats one with the same key that was executed before, and is executed again.
 * For `skip` of a limit behind the idempotency keys: it then counts each key once.
 */
export function isCharged(request: object): boolean {
  return charged.has(request)
}
