/**
 * Makes the request what its upstream gets: the path as the route rewrites it, who asks, by
 * `X-Forwarded-*` and `Forwarded`, and who that is, by `X-Tidegate-*`. Whatever a client sent under
 * these names is gone by now, unless a trusted proxy sent it.
 * https://www.rfc-editor.org/rfc/rfc7239
 */

import type { HeaderChanges } from '../../policy/gateway-section.ts'
import type { Identity } from '../../policy/request-facts.ts'
import {
  fieldOf,
  type GatewayRequest,
  type HeaderList,
  removeField,
  type Stage,
  setField,
  whenDone,
} from '../message.ts'
import type { Route } from './route.ts'

export interface TransformOptions {
  /** Whether API keys are known ones, so that their ids mean something to an upstream. */
  readonly knowsKeys: boolean
}

export function transform({ knowsKeys }: TransformOptions): Stage {
  return (request, next) => {
    const { route } = request
    if (route === undefined) throw new Error('a request is transformed after it has a route')
    request.target = `${rewritten(request.path, route)}${request.query}`
    request.headers.push('host', request.host)
    addForwarding(request)
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

/** As in patterns, what counts of a segment is what stands before its parameters. */
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

/** Names of users are any text; as header fields they are percent-encoded. */
function addEncoded(headers: HeaderList, name: string, value: string | undefined): void {
  if (value !== undefined) headers.push(name, encodeURIComponent(value.toWellFormed()))
}

function change(headers: HeaderList, changes: HeaderChanges | undefined): void {
  if (changes === undefined) return
  for (const name of changes.remove) removeField(headers, name)
  for (const name in changes.set) setField(headers, name, changes.set[name] as string)
}
