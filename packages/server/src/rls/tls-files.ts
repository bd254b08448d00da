/** Certificates from files, for listeners; a changed file applies to the next handshake. */

import { readFileSync, unwatchFile, watchFile } from 'node:fs'
import type { Server as NetServer } from 'node:net'
import type { SecureContextOptions, TLSSocket, Server as TlsServer } from 'node:tls'
import type { TlsFiles } from './rpc.ts'

/** How often the files are looked at: certificates are replaced hours before they end. */
const WATCH_MS = 2_000

export function tlsOptions(files: TlsFiles) {
  const isMutual = files.clientCa !== undefined
  return {
    ...contextOf(files),
    ALPNProtocols: ['h2'],
    minVersion: 'TLSv1.2' as const,
    handshakeTimeout: 10_000,
    requestCert: isMutual,
    rejectUnauthorized: isMutual,
  }
}

/** Whether the client's certificate is for one of these names; without names, any is. */
export function isNamed(socket: TLSSocket, names: readonly string[]): boolean {
  if (names.length === 0) return true
  const { subjectaltname = '' } = socket.getPeerCertificate()
  const own = subjectaltname.split(', ').map((entry) => entry.slice(entry.indexOf(':') + 1))
  return own.some((name) => names.includes(name))
}

/** Takes changed files over; files that do not fit each other yet are tried again. */
export function watchTls(server: NetServer, files: TlsFiles): () => void {
  const paths = [files.cert, files.key, ...(files.clientCa === undefined ? [] : [files.clientCa])]
  const reload = () => {
    try {
      ;(server as TlsServer).setSecureContext(contextOf(files))
    } catch {
      // The certificate and its key are replaced one after the other: the next look takes both.
    }
  }
  for (const path of paths) watchFile(path, { interval: WATCH_MS, persistent: false }, reload)
  return () => {
    for (const path of paths) unwatchFile(path, reload)
  }
}

function contextOf({ cert, key, clientCa }: TlsFiles): SecureContextOptions {
  return {
    cert: readFileSync(cert),
    key: readFileSync(key),
    ...(clientCa === undefined ? undefined : { ca: readFileSync(clientCa) }),
  }
}
