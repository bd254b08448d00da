/** Checks of options. Each error names the path, the value and the values that are allowed. */

import { invalid } from './errors.ts'

/** Refuses values that are not a plain object of options, and unknown options. */
export function checkOptions(options: unknown, path: string, known: readonly string[]): void {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    throw invalid('invalid-option', { path, value: options, allowed: 'an object of options' })
  }
  for (const [name, value] of Object.entries(options)) {
    if (!known.includes(name)) {
      const place = { path: `${path}.${name}`, value, allowed: `no option but ${known.join(', ')}` }
      throw invalid('invalid-option', place)
    }
  }
}

/** Checks the options of a call: a misspelt one would be ignored silently. */
export function checkCall(options: object | undefined, call: string, known: readonly string[]) {
  if (options === undefined) return
  // An array or a string would count as an object without options.
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    throw notOptions(options, call, known)
  }
  for (const name in options) if (!known.includes(name)) checkOptions(options, call, known)
}

/** Other limiters take the cost as an argument; here it is an option. */
function notOptions(value: unknown, call: string, known: readonly string[]) {
  const isCost = typeof value === 'number' && known.includes('cost')
  const allowed = isCost ? `an object of options: { cost: ${value} }` : 'an object of options'
  return invalid('invalid-option', { path: call, value, allowed })
}

export function checkWhole(value: unknown, path: string, min: number, max: number): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= min && value <= max) {
    return value
  }
  throw invalid('invalid-option', { path, value, allowed: `a whole number from ${min} to ${max}` })
}

export function checkFunction<F>(value: F | undefined, path: string): F | undefined {
  if (value === undefined || typeof value === 'function') return value
  throw invalid('invalid-option', { path, value, allowed: 'a function' })
}

export function checkBoolean(value: unknown, path: string): boolean {
  if (value === undefined || typeof value === 'boolean') return value === true
  throw invalid('invalid-option', { path, value, allowed: 'true or false' })
}

export function checkOneOf<T extends string>(value: unknown, path: string, set: readonly T[]): T {
  const found = set.find((member) => member === value)
  if (found !== undefined) return found
  const allowed = set.map((member) => `'${member}'`).join(', ')
  throw invalid('invalid-option', { path, value, allowed })
}
