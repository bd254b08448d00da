/** Who a client certificate says it is. Only certificates that were verified get here. */

import type { AuthSection } from '../../policy/gateway-section.ts'
import type { ClientCertificate } from '../message.ts'

export function certificateIdentity(
  certificate: ClientCertificate,
  by: AuthSection['certificate']['identity'],
): string {
  const { commonName, names, fingerprint } = certificate
  if (by === 'commonName') return commonName ?? fingerprint
  return by === 'san' ? (names[0] ?? fingerprint) : fingerprint
}
