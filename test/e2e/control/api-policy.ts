/** A policy with one limit of this size for each organisation, as it is published. */
export function apiPolicy(limit: number): string {
  const key = 'key: organisation, otherwise: skip'
  return `limits:\n  - { name: api, ${key}, limit: ${limit}, per: 1h }\n`
}
