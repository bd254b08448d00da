/**
 * What limits look at in a request, whatever door it came through. A door fills it in; keys,
 * matches, tiers and costs read it and nothing else.
 */

export interface RequestFacts {
  /** In capitals, such as `POST`. */
  readonly method: string
  /** Canonical and without a query: what is matched is also what is forwarded. */
  readonly path: string
  /** The client's address, unmasked and in one spelling; undefined where nothing tells it. */
  readonly ip: string | undefined
  /** Who it is, as far as was verified. */
  readonly identity: Identity
  /** The value of a header field by its lower-case name; several are joined by commas. */
  header(name: string): string | undefined
}

/** Each part is there only where its check succeeded. */
export interface Identity {
  /** The id of an API key, never the key itself. */
  readonly apiKey?: string
  /** The subject of a token. */
  readonly user?: string
  readonly organisation?: string
  /** A tier that the API key or the certificate carries. */
  readonly tier?: string
  /** All claims of a verified token. */
  readonly claims?: Readonly<Record<string, unknown>>
  /** The identity in a client certificate. */
  readonly certificate?: string
}

export const anonymous: Identity = Object.freeze({})
