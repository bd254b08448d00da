/** The credentials that a section `admin` names. */

import type { AdminAccess } from '../../admin/admin-api.ts'
import type { ReadSecret } from '../../config/secrets.ts'
import { readTlsFile } from '../../config/tls-files.ts'
import type { AdminSection } from '../../policy/schema/admin-section.ts'

/** The first token is a random text; a shorter one was made up. */
const TOKEN_LENGTH_MIN = 32

/** True if there is a credential for the admin API. */
export function hasAdminApi(admin: AdminSection): boolean {
  if (admin === undefined) return false
  return admin.token !== undefined || Object.keys(admin.certificates).length > 0
}

export function adminAccess(
  { token, certificates, hosts }: NonNullable<AdminSection>,
  readSecret: ReadSecret,
): AdminAccess {
  return {
    bootstrapToken: token && checkedToken(readSecret(token, 'admin.token'), 'admin.token'),
    certificateRoles: certificates,
    hosts: hosts.map((name) => name.toLowerCase()),
  }
}

/** Throws if the secret is too short to be a random text. */
export function checkedToken(token: string, place: string): string {
  if (token.length >= TOKEN_LENGTH_MIN) return token
  throw new Error(`${place}: the secret is too short; allowed: ${TOKEN_LENGTH_MIN} characters`)
}

/** The contents of the files that the section names. */
export function listenerTls(
  { cert, key, clientCa }: NonNullable<NonNullable<AdminSection>['tls']>,
  folder: string,
) {
  const read = (file: string) => readTlsFile(file, folder)
  return {
    cert: read(cert),
    key: read(key),
    clientCa: clientCa === undefined ? undefined : read(clientCa),
  }
}
