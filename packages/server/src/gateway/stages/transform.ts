/**
 * Prepares the request for its upstream: the rewritten path, the client's address in
 * `X-Forwarded-*` and `Forwarded`, this gateway in `Via`, and the verified identity in
 * `X-Tidegate-*`. Fields of clients under these names were dropped before, except `Via` and those
 * of trusted proxies. https://www.rfc-editor.org/rfc/rfc7239
 */

import type { Identity } from '../../limits/request-facts.ts'
import type { HeaderChanges } from '../../policy/schema/routes-section.ts'
import { fieldOf, type HeaderList, removeField, setField } from '../header-list.ts'
import type { GatewayRequest } from '../message.ts'
import { type Stage, whenDone } from '../pipeline.ts'
import { upstreamTarget } from '../upstreams/upstream-context.ts'
import { type Route, routeOf } from './route.ts'
import { addVia } from './via.ts'

export interface TransformOptions {
  /** True if API keys are verified, so that their ids mean something to an upstream. */
  readonly knowsKeys: boolean
  /** The name of this gateway in `Via`. */
  readonly via: string
}

export function transform({ knowsKeys, via }: TransformOptions): Stage {
  return (request, next) => {
    const route = routeOf(request)
    request.context.set(upstreamTarget, `${rewritten(request.path, route)}${request.query}`)
    request.headers.push('host', request.host)
    addForwarding(request)
    addVia(request, via)
    addIdentity(request.headers, request.identity, knowsKeys)
    change(request.headers, route.requestHeaders)
    const { responseHeaders } = route
    if (responseHeaders === undefined) return next(request)
    return whenDone(next(request), (response) => {
      change(response.headers, responseHeaders)
      return response
    })
  }
}

function rewritten(path: string, { stripPrefix, addPrefix }: Route): string {
  const rest = stripPrefix === '' ? path : stripped(path, stripPrefix)
  return addPrefix === '' ? rest || '/' : `${addPrefix}${rest}`
}

/** Parameters of a segment are ignored, as in path patterns. */
function stripped(path: string, prefix: string): string {
  if (path.startsWith(prefix) && (path.length === prefix.length || path[prefix.length] === '/')) {
    return path.slice(prefix.length)
  }
  const segments = path.split('/')
  const names = prefix.split('/')
  const isUnder = names.every((name, at) => segments[at]?.replace(/(;|%3B).*$/, '') === name)
  return isUnder ? ['', ...segments.slice(names.length)].join('/') : path
}

function addForwarding({ headers, forwarded, connection, host, ip }: GatewayRequest): void {
  const peer = connection.peer ?? 'unknown'
  const scheme = connection.isEncrypted ? 'https' : 'http'
  const hop = `for=${connection.forwardedNode};host="${host}";proto=${scheme}`
  if (!connection.isTrusted || forwarded.length === 0) {
    headers.push('x-forwarded-for', peer, 'x-forwarded-proto', scheme)
    headers.push('x-forwarded-host', host, 'forwarded', hop)
  } else {
    headers.push(...forwarded)
    setField(headers, 'x-forwarded-for', listed(fieldOf(forwarded, 'x-forwarded-for'), peer))
    setField(headers, 'forwarded', listed(fieldOf(forwarded, 'forwarded'), hop))
    addMissing(headers, 'x-forwarded-proto', scheme)
    addMissing(headers, 'x-forwarded-host', host)
    removeField(headers, 'x-real-ip')
  }
  if (ip !== undefined) headers.push('x-real-ip', ip)
}

function listed(before: string | undefined, added: string): string {
  return before === undefined ? added : `${before}, ${added}`
}

function addMissing(headers: HeaderList, name: string, value: string): void {
  if (fieldOf(headers, name) === undefined) headers.push(name, value)
}

function addIdentity(headers: HeaderList, identity: Identity, knowsKeys: boolean): void {
  if (knowsKeys) addEncoded(headers, 'x-tidegate-key', identity.apiKey)
  addEncoded(headers, 'x-tidegate-user', identity.user)
  addEncoded(headers, 'x-tidegate-organisation', identity.organisation)
  addEncoded(headers, 'x-tidegate-certificate', identity.certificate)
}

/** Names of users can be any text, so they are percent-encoded. */
function addEncoded(headers: HeaderList, name: string, value: string | undefined): void {
  if (value !== undefined) headers.push(name, encodeURIComponent(value.toWellFormed()))
}

function change(headers: HeaderList, changes: HeaderChanges | undefined): void {
  if (changes === undefined) return
  for (const name of changes.remove) removeField(headers, name)
  for (const name in changes.set) setField(headers, name, changes.set[name] as string)
}
