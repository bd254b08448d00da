/** What people can mend at the start is said in a line, without a trace. */

import { SettingError } from '../environment.ts'

/** `portSetting` is where another port is set. */
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
  if (code === 'EACCES') return new SettingError(`port ${port} may not be used by this user`)
  if (code === 'EADDRNOTAVAIL') return new SettingError(`${address} is no address of this machine`)
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') {
    return new SettingError(`no address is known for ${hostname}`)
  }
  if (code === 'ENOENT') return new SettingError(error.message)
  return code === undefined && error.constructor === Error ? new SettingError(error.message) : error
}
