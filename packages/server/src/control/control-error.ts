/** The one error of the control plane, with a closed set of codes. */

export const controlErrorCodes = [
  /** The store does not answer, or cannot be reached. A transaction may have been applied. */
  'unreachable',
  /** The store refuses this process: a wrong password, a missing permission, a certificate. */
  'denied',
  /** A key, a value or a transaction is outside the bounds. Nothing was applied. */
  'out-of-bounds',
  /** The store has no room. Nothing was applied. */
  'full',
  /** Another client was faster. Nothing was applied. */
  'conflict',
  /** The content of the store cannot be understood. */
  'damaged',
  /** The store was closed. */
  'closed',
] as const

export type ControlErrorCode = (typeof controlErrorCodes)[number]

export interface ControlErrorOptions extends ErrorOptions {
  /** Default: false. */
  readonly mayBeApplied?: boolean
}

export class ControlError extends Error {
  readonly code: ControlErrorCode
  /** True for a transaction whose response was lost. The message says so. */
  readonly mayBeApplied: boolean

  constructor(code: ControlErrorCode, message: string, options: ControlErrorOptions = {}) {
    super(message, options)
    this.name = 'ControlError'
    this.code = code
    this.mayBeApplied = options.mayBeApplied === true
  }
}
