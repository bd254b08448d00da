/** Numbers as texts of tables and charts. */

export function figure(value: number | string | undefined, digits?: number): string {
  if (value === undefined || value === null) return ''
  if (typeof value === 'string') return value
  if (!Number.isFinite(value)) return '∞'
  const fraction = digits ?? (Number.isInteger(value) ? 0 : fractionDigits(value))
  return value.toLocaleString('en-US', {
    minimumFractionDigits: fraction,
    maximumFractionDigits: fraction,
  })
}

/** A measured figure with three digits, because further ones differ from run to run. */
export function rough(value: number): string {
  return figure(Math.abs(value) >= 1_000 ? Number(value.toPrecision(3)) : value)
}

/** The text of a tick, without insignificant digits. */
export function tickText(value: number): string {
  return value.toLocaleString('en-US', { maximumSignificantDigits: 3 })
}

function fractionDigits(value: number): number {
  const size = Math.abs(value)
  if (size >= 100) return 0
  if (size >= 10) return 1
  if (size >= 1) return 2
  return size >= 0.1 ? 3 : 4
}
