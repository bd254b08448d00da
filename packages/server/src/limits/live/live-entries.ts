/**
 * Changes of operators to a running policy: other numbers for single keys, blocks, and the switch.
 * Each is a small entry with an end. They are plain values; `LiveRules` makes an index of them.
 */

import type { LimitChange } from '../limit-settings.ts'

interface LiveEntry {
  /** Names the entry in explanations and logs; it reveals no key. */
  readonly id: string
  /** In milliseconds since 1970, by the clock of the node; Infinity for no end. */
  readonly expiresAt: number
  /** When it was written. Of two entries in the same place, the newer one wins. */
  readonly at: number
}

/** Other numbers of a limit for one key. */
export interface LiveOverride extends LiveEntry {
  readonly limit: string
  /** A text for each part of the key. */
  readonly key: readonly string[]
  readonly set: LimitChange
}

/** Parts of an identity that a block can name. */
export const blockedIdentities = ['user', 'apiKey', 'organisation', 'certificate'] as const

/** `key` names a key of a limit. */
export const blockKinds = ['ip', 'cidr', ...blockedIdentities, 'key'] as const

export type BlockKind = (typeof blockKinds)[number]

/** A client whose requests are refused. */
export interface LiveBlock extends LiveEntry {
  readonly kind: BlockKind
  /** An address, a CIDR or an id; empty for the kind `key`. */
  readonly value: string
  /** For the kind `key`: requests that this limit counts by this key. */
  readonly limit?: string | undefined
  readonly key?: readonly string[] | undefined
  /** The status of the response. */
  readonly answer: 403 | 429
}

export const switchStates = ['on', 'shadow', 'off'] as const

/** `shadow`: all limits count and none refuses. `off`: requests are not counted. */
export type SwitchState = (typeof switchStates)[number]

export interface LiveSwitch extends LiveEntry {
  readonly limits: SwitchState
  /** `off` lifts all blocks. */
  readonly blocks: 'on' | 'off'
}

export interface LiveEntries {
  readonly overrides: readonly LiveOverride[]
  readonly blocks: readonly LiveBlock[]
  readonly switch: LiveSwitch | undefined
}

export const noEntries: LiveEntries = Object.freeze({
  overrides: [],
  blocks: [],
  switch: undefined,
})
