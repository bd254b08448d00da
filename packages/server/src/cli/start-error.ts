/** Turns errors that users can fix, such as a port in use, into one line without a stack trace. */

import { SettingError } from '../app/environment.ts'

/** `portSetting` is the setting of the port. */
export function startError(error: unknown, portSetting: string): unknown {
  if (!(error instanceof Error) || error instanceof SettingError) return error
  const { code, port, address, hostname } = error as NodeJS.ErrnoException & {
    readonly port?: number
    readonly address?: string
    readonly hostname?: string
  }
  if (code === 'EADDRINUSE') {
    const advice = `stop what listens there, or set another port (${portSetting})`
    return new SettingError(`port ${port} is in use; ${advice}`)
  }
  if (code === 'EACCES')
    return new SettingError(`this user is not permitted to listen on port ${port}`)
  if (code === 'EADDRNOTAVAIL') return new SettingError(`${address} is not an address of this host`)
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') {
    return new SettingError(`no address is known for ${hostname}`)
  }
  if (code === 'ENOENT') return new SettingError(error.message)
  return code === undefined && error.constructor === Error ? new SettingError(error.message) : error
}
