/** How important a request is when not all can be served. */

/** From the first that is shed to the last. */
export const priorities = ['sheddable', 'normal', 'critical'] as const

export type Priority = (typeof priorities)[number]

/** The priority of a request to which nothing gives one. */
export const PRIORITY_DEFAULT: Priority = 'normal'

/** Returns the higher of two; a missing one does not count. */
export function higher(
  one: Priority | undefined,
  other: Priority | undefined,
): Priority | undefined {
  if (one === undefined || other === undefined) return one ?? other
  return priorities.indexOf(one) >= priorities.indexOf(other) ? one : other
}
