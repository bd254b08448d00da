/**
 * Calls `act` for each place of a list in order, at most 1,000 in one turn of the event loop, so
 * that the callers of a burst get their answers without holding it up: with their own continuations
 * each takes about 3 µs. The first 1,000 are called at once.
 */

const PER_TURN_MAX = 1_000

export function inTurns(count: number, act: (at: number) => void): void {
  let at = 0
  const actOnSome = () => {
    const end = Math.min(at + PER_TURN_MAX, count)
    while (at < end) act(at++)
    if (at < count) setImmediate(actOnSome)
  }
  actOnSome()
}
