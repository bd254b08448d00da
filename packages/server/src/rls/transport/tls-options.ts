/** TLS for listeners: a changed certificate applies to the next handshake. */

import type { Server as NetServer } from 'node:net'
import type { TLSSocket, Server as TlsServer } from 'node:tls'
import { alternativeNames } from '../../config/alternative-names.ts'
import { followTlsFiles, readTlsFiles } from '../../config/tls-files.ts'
import type { TlsFiles } from '../rpc.ts'

export function tlsOptions(files: TlsFiles) {
  const isMutual = files.clientCa !== undefined
  return {
    ...readTlsFiles(pathsOf(files)),
    ALPNProtocols: ['h2'],
    minVersion: 'TLSv1.2' as const,
    handshakeTimeout: 10_000,
    requestCert: isMutual,
    rejectUnauthorized: isMutual,
  }
}

/** Returns true if the client's certificate has one of the names, or if there are no names. */
export function isNamed(socket: TLSSocket, names: readonly string[]): boolean {
  if (names.length === 0) return true
  const { subjectaltname = '' } = socket.getPeerCertificate()
  return alternativeNames(subjectaltname).some((name) => names.includes(name))
}

/** Applies changes of the files to the next handshakes; returns a function that ends this. */
export function watchTls(server: NetServer, files: TlsFiles): () => void {
  const tls = server as TlsServer
  return followTlsFiles(pathsOf(files), (contents) => tls.setSecureContext(contents))
}

function pathsOf({ cert, key, clientCa }: TlsFiles) {
  return { cert, key, ca: clientCa }
}
