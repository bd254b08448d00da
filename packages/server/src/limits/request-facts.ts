/**
 * The facts about a request that limits use. The service that receives the request fills them in;
 * keys, matches, tiers and costs read nothing else.
 */

export interface RequestFacts {
  /** In capitals, such as `POST`. */
  readonly method: string
  /** Canonical and without a query, as it is forwarded; empty if it is not known. */
  readonly path: string
  /** The client's address in its canonical spelling; undefined if it is not known. */
  readonly ip: string | undefined
  /** The verified identity of the caller. */
  readonly identity: Identity
  /** The value of a header field by its lower-case name; several are joined by commas. */
  header(name: string): string | undefined
  /** The descriptor of Envoy that asks; absent for other requests. */
  readonly descriptor?: DescriptorFacts | undefined
}

export interface DescriptorFacts {
  readonly domain: string
  /** The value of an entry by its key. */
  entry(key: string): string | undefined
}

/** A part is present only if it was verified. */
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
