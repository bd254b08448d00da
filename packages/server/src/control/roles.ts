/** The roles of operators. Each may do everything that those before it may. */

export const roles = ['read', 'operate', 'admin'] as const

export type Role = (typeof roles)[number]

/** True if `role` is at least `needed`. */
export function isAtLeast(role: Role, needed: Role): boolean {
  return roles.indexOf(role) >= roles.indexOf(needed)
}

export function isRole(text: string): text is Role {
  return roles.some((role) => role === text)
}
