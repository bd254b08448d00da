/**
 * The files that a policy names, beside that of tiers: whether they can be used as what they are
 * named for. The gateway would find out when it starts; `tidegate check` shall say so before.
 */

import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { createSecureContext } from 'node:tls'
import { createLocalJWKSet, type JSONWebKeySet } from 'jose'
import { SettingError } from '../environment.ts'
import { apiKeys } from '../gateway/auth/api-keys.ts'
import type { PolicyDocument } from '../policy/policy-schema.ts'

/** Throws with a line for each that cannot be used. `folder` is where relative names begin. */
export function checkNamedFiles(document: PolicyDocument, folder: string): void {
  const read = (file: string) => readFileSync(resolve(folder, file), 'utf8')
  const problems = [...uses(document, read)].flatMap(({ place, use }) => {
    const problem = problemOf(use)
    return problem === undefined ? [] : [`${place}: ${problem}`]
  })
  if (problems.length > 0) throw new SettingError(problems.join('\n'))
}

interface Use {
  readonly place: string
  use(): unknown
}

type Read = (file: string) => string

function* uses({ auth, gateway, upstreams, store }: PolicyDocument, read: Read): Generator<Use> {
  const { apiKeys: keys, jwt } = auth
  if (keys !== undefined) {
    const use = () => apiKeys(read(keys.file), { ...keys, secret: '' })
    yield { place: `auth.apiKeys.file ${keys.file}`, use }
  }
  const { jwksFile } = jwt ?? {}
  if (jwksFile !== undefined) {
    const use = () => createLocalJWKSet(JSON.parse(read(jwksFile)) as JSONWebKeySet)
    yield { place: `auth.jwt.jwksFile ${jwksFile}`, use }
  }
  const { cert, key, clientCa } = gateway.tls ?? {}
  yield* tlsUses('gateway.tls', { cert, key, ca: clientCa }, read)
  for (const [name, { tls }] of Object.entries(upstreams)) {
    yield* tlsUses(`upstreams.${name}.tls`, tls ?? {}, read)
  }
  yield* tlsUses('store.tls', store.tls === true ? {} : (store.tls ?? {}), read)
}

interface TlsFiles {
  readonly ca?: string | undefined
  readonly cert?: string | undefined
  readonly key?: string | undefined
}

/** One after the other, to tell which it is; the key together with its certificate. */
function* tlsUses(place: string, { ca, cert, key }: TlsFiles, read: Read): Generator<Use> {
  if (ca !== undefined) {
    yield {
      place: `${place}, certificates ${ca}`,
      use: () => createSecureContext({ ca: read(ca) }),
    }
  }
  if (cert !== undefined) {
    const use = () => createSecureContext({ cert: read(cert) })
    yield { place: `${place}.cert ${cert}`, use }
  }
  if (key !== undefined) {
    const use = () => {
      if (cert === undefined || problemOf(() => createSecureContext({ cert: read(cert) })))
        return createSecureContext({ key: read(key) })
      return createSecureContext({ cert: read(cert), key: read(key) })
    }
    yield { place: `${place}.key ${key}`, use }
  }
}

/** In one line. OpenSSL and parsers say what is wrong in words, if few. */
function problemOf(use: () => unknown): string | undefined {
  try {
    use()
    return undefined
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return 'there is no such file'
    const [line = ''] = message.split('\n')
    return `cannot be used: ${line.replace(/^(error:[0-9A-F]+:|auth\.apiKeys\.file: )/, '')}`
  }
}
