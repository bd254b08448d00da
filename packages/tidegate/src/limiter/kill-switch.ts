/**
 * Turns limiting on and off: by the option of a limiter, and by an environment variable for a whole
 * process, which is read when a limiter is made. Neither needs a store.
 */

import { invalid } from '../errors.ts'
import { environmentVariable } from '../runtime.ts'

const VARIABLE = 'TIDEGATE_ENABLED'

const on = ['', '1', 'true', 'on', 'yes']
const off = ['0', 'false', 'off', 'no']

export function isLimitingEnabled(option: unknown): boolean {
  if (option !== undefined && typeof option !== 'boolean') {
    const place = { path: 'createLimiter.enabled', value: option, allowed: 'true or false' }
    throw invalid('invalid-option', place)
  }
  const value = (environmentVariable(VARIABLE) ?? '').trim().toLowerCase()
  if (off.includes(value)) return false
  if (on.includes(value)) return option !== false
  const allowed = [...on.slice(1), ...off].join(', ')
  throw invalid('invalid-option', { path: VARIABLE, value, allowed })
}
