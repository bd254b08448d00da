/**
 * The files that a policy names, besides those of tiers and API keys, which are parsed with it:
 * certificates, and keys of tokens. Their change is a change of the policy.
 */

import { X509Certificate } from 'node:crypto'
import { resolve } from 'node:path'
import { createLocalJWKSet, type JSONWebKeySet } from 'jose'
import { alternativeNames } from '../config/alternative-names.ts'
import { readSmallFile } from '../config/read-file.ts'
import { problemOf, type TlsFiles, tlsProblems } from '../config/tls-files.ts'
import type { PolicyDocument } from './schema/policy-schema.ts'

/** The files of a TLS listener. */
interface ListenerTls {
  readonly cert: string
  readonly key: string
  readonly clientCa?: string | undefined
}

/** Returns the files as they are named in the policy. */
export function namedFiles({ auth, gateway, upstreams }: PolicyDocument): readonly string[] {
  const { tls } = gateway
  const named = [auth.jwt?.jwksFile, tls?.cert, tls?.key, tls?.clientCa]
  for (const { tls: ofUpstream } of Object.values(upstreams)) {
    named.push(ofUpstream?.ca, ofUpstream?.cert, ofUpstream?.key)
  }
  return named.filter((file) => file !== undefined)
}

/** Returns one line for each file that cannot be used. Relative names begin at `folder`. */
export function namedFileProblems(document: PolicyDocument, folder: string): readonly string[] {
  const { auth, gateway, upstreams, store, rateLimitService, admin, regions } = document
  return [
    ...jwksProblems(auth.jwt?.jwksFile, folder),
    ...tlsProblems('gateway.tls', listenerFiles(gateway.tls), folder),
    ...tlsProblems('admin.tls', listenerFiles(admin?.tls), folder),
    ...tlsProblems('rateLimitService.tls', listenerFiles(rateLimitService?.tls), folder),
    ...tlsProblems('regions.link', regions?.link ?? {}, folder),
    ...regionNameProblems(document, folder),
    ...Object.entries(upstreams).flatMap(([name, { tls }]) =>
      tlsProblems(`upstreams.${name}.tls`, tls ?? {}, folder),
    ),
    ...tlsProblems('store.tls', store.tls === true ? {} : (store.tls ?? {}), folder),
  ]
}

function listenerFiles({ cert, key, clientCa }: Partial<ListenerTls> = {}): TlsFiles {
  return { cert, key, ca: clientCa }
}

/** Other regions use this node only if its certificate has the name of its region. */
function regionNameProblems({ region, regions }: PolicyDocument, folder: string): string[] {
  const file = regions?.link?.cert
  if (file === undefined || region === undefined) return []
  let names: readonly string[]
  try {
    const { subjectAltName = '' } = new X509Certificate(readSmallFile(resolve(folder, file)))
    names = alternativeNames(subjectAltName)
  } catch {
    // Reported as a file that cannot be used.
    return []
  }
  if (names.includes(region)) return []
  return [`regions.link.cert ${file}: the certificate has no DNS name ${region}, the region here`]
}

function jwksProblems(file: string | undefined, folder: string): readonly string[] {
  if (file === undefined) return []
  const problem = problemOf(() => {
    const text = readSmallFile(resolve(folder, file)).toString('utf8')
    createLocalJWKSet(JSON.parse(text) as JSONWebKeySet)
  })
  return problem === undefined ? [] : [`auth.jwt.jwksFile ${file}: ${problem}`]
}
