/** The identity in a client certificate, which was verified before. */

import type { AuthSection } from '../../policy/schema/auth-section.ts'
import type { ClientCertificate } from '../message.ts'

export function certificateIdentity(
  certificate: ClientCertificate,
  by: AuthSection['certificate']['identity'],
): string {
  const { commonName, names, fingerprint } = certificate
  if (by === 'commonName') return commonName ?? fingerprint
  return by === 'san' ? (names[0] ?? fingerprint) : fingerprint
}
