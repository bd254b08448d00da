/** A route of the admin API: everything that the router, the guard and the document need of it. */

import type { KeyState } from 'tidegate/idempotency'
import type { z } from 'zod'
import type { AuditEntry } from '../control/audit/audit-record.ts'
import type { AuditedChanges } from '../control/audit/audited-change.ts'
import type { KeyValueStore } from '../control/key-value.ts'
import type { PolicyVersions } from '../control/policy-versions.ts'
import type { Role } from '../control/roles.ts'
import type { TokenBook } from '../control/tokens.ts'
import type { ApiRequest, ApiResponse } from '../http-api/messages.ts'
import { jsonResponse } from '../http-api/messages.ts'
import type { OperatedLimits } from '../limits/counters.ts'
import type { Digest } from '../observability/digests.ts'
import type { TopLists } from '../observability/top/top-lists.ts'
import type { Caller } from './access/caller.ts'
import type { Sessions } from './access/sessions.ts'
import type { ConsoleView } from './console/console-view.ts'

export type Method = 'GET' | 'POST' | 'PUT' | 'DELETE'

/** The parts of the service that routes use. */
export interface AdminContext {
  /** The place of operators' changes. */
  readonly control: KeyValueStore
  readonly changes: AuditedChanges
  readonly tokens: TokenBook
  readonly sessions: Sessions
  /** False if the credential of a caller has ended. */
  isAllowed(caller: Caller): boolean
  /** Makes the keyed digests of keys that responses and the audit have, as logs do. */
  readonly digest: Digest
  /** Undefined on a node that follows a file. */
  readonly versions: PolicyVersions | undefined
  /** The version of the program. */
  readonly version: string
  /** True if an override or a block can be set at this key. */
  hasRoom(key: string): Promise<boolean>
  /** The limits in force. */
  limits(): OperatedLimits
  status(): object
  /**
   * The keys with the most decisions; digests of them, unless `isRaw`. Undefined on a service that
   * does not count them.
   */
  readonly top: TopLists['read'] | undefined
  /** Undefined on a service that has no console, such as one with Envoy's files. */
  readonly console: ConsoleView | undefined
  /** The idempotency keys of the policy in force; undefined if it has none. */
  keys(): OperatedKeys | undefined
  /** The policy in force: its version, its source and problems of a refused one. */
  policy(): object
  /** Explains a request by the live rules. Throws ApiError for invalid input. */
  explain(input: ExplainAsked): Promise<object>
}

export interface OperatedKeys {
  /** Makes the text of a sender from its parts; `isOtherwise` means `idempotency.otherwise`. */
  senderOf(
    parts: readonly string[],
    isOtherwise: boolean,
  ): { readonly ok: true; readonly text: string } | { readonly ok: false; readonly problem: string }
  /** Undefined if the key is not known. Rejects if the store does not answer. */
  look(sender: string, key: string): Promise<KeyState | undefined>
  /** False if the key is not known. */
  forget(sender: string, key: string): Promise<boolean>
}

export interface ExplainAsked {
  readonly method: string
  readonly path: string
  readonly ip: string
  readonly headers: Readonly<Record<string, string>>
  readonly identity: Readonly<Partial<Record<'user' | 'organisation' | 'tier', string>>>
  /** The domain of a call, for a rate limit service with Envoy's files. */
  readonly domain: string | undefined
  /** Each entry is `key=value`. */
  readonly descriptors: readonly (readonly string[])[] | undefined
}

/** A request with its caller and its parsed body. */
export interface Call<Body> {
  readonly body: Body
  readonly caller: Caller
  readonly request: ApiRequest
  readonly requestId: string
  readonly context: AdminContext
  /** The caller's part of an audit record. */
  readonly author: Pick<AuditEntry, 'actor' | 'ip' | 'requestId'>
}

export interface Route {
  readonly method: Method
  /** Such as `/v1/policy/versions/{version}`. */
  readonly path: string
  /** The least role. */
  readonly role: Role
  /** The name of the attempt in the audit, also if it is refused. Undefined: it only reads. */
  readonly action: string | undefined
  readonly summary: string
  readonly body: z.ZodType | undefined
  /** The body of a success, if it is JSON. */
  readonly response: z.ZodType | undefined
  /** Names of fields in the query. */
  readonly query: readonly string[]
  /** The media type of the response. */
  readonly type: string
  handle(call: Call<unknown>): Promise<ApiResponse>
}

export interface RouteParts<Schema extends z.ZodType | undefined> {
  readonly method: Method
  readonly path: string
  readonly role: Role
  readonly action?: string
  readonly summary: string
  readonly body?: Schema
  /** Every JSON response needs one; it is not checked while the service runs. */
  readonly response?: z.ZodType
  readonly query?: readonly string[]
  /** Default: JSON. */
  readonly type?: string
  handle(call: Call<Schema extends z.ZodType ? z.output<Schema> : undefined>): Promise<ApiResponse>
}

/** The body that `handle` gets was parsed by `body`, which the type of the table cannot express. */
export function route<Schema extends z.ZodType | undefined = undefined>(
  parts: RouteParts<Schema>,
): Route {
  const { handle, body, response, action, query = [], type = 'application/json', ...rest } = parts
  return {
    ...rest,
    type,
    action,
    query,
    body: body as z.ZodType | undefined,
    response,
    handle: handle as Route['handle'],
  }
}

export function ok(value: object, headers?: Readonly<Record<string, string>>): ApiResponse {
  const response = jsonResponse(200, `${JSON.stringify(value, null, 2)}\n`)
  return headers === undefined ? response : { ...response, headers }
}

/** The scope of a change, for people and programs. */
export function scopeOf({ control }: AdminContext): { scope: string; note: string } {
  const note = control.scope === 'node' ? 'this node only' : 'all nodes'
  return { scope: control.scope, note }
}
