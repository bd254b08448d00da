/** A time as a policy has it, in the largest unit that divides it: `10s`, `90s`, `250ms`. */

const units = { d: 86_400_000, h: 3_600_000, m: 60_000, s: 1_000, ms: 1 } as const

export function durationText(durationMs: number): string {
  const [unit, unitMs] = Object.entries(units).find(([, ms]) => durationMs % ms === 0) ?? ['ms', 1]
  return `${durationMs / unitMs}${unit}`
}
