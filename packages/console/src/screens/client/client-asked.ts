/** The client that a screen asks for. It is kept in memory, because keys are not put into URLs. */

import { signal } from '@preact/signals'

export const kinds = {
  ip: 'Address',
  apiKey: 'API key (its id)',
  user: 'User',
  organisation: 'Organisation',
  certificate: 'Certificate',
} as const

export type ClientKind = keyof typeof kinds

export interface Asked {
  readonly kind: ClientKind
  readonly value: string
  readonly method: string
  readonly path: string
}

export const asked = signal<Asked>({ kind: 'ip', value: '', method: 'GET', path: '/' })

export function askFor(found: Pick<Asked, 'kind' | 'value'>): void {
  asked.value = { ...asked.value, ...found }
}

/** The kind that a pasted text most likely is. */
export function guessKind(text: string): ClientKind | undefined {
  return /^[\d.]+$|^[\da-f:]+:[\da-f:]*$/i.test(text.trim()) ? 'ip' : undefined
}
