/** Another region: its connection, and its store behind it. */

import type { PeerLink } from './peer-link.ts'
import type { PeerStore } from './peer-store.ts'

export interface Peer {
  readonly link: PeerLink
  readonly store: PeerStore
}
