/**
 * The files of the console, as the build made them. They are read once into memory; names with a
 * hash never change, and the page itself is never cached. The page may load nothing from elsewhere.
 */

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ApiError } from '../../http-api/api-error.ts'
import type { ApiRequest, ApiResponse } from '../../http-api/messages.ts'
import type { Methods } from '../../http-api/router.ts'

/** Beside `src` and beside `dist`, so that both find it. */
const FOLDER = fileURLToPath(new URL('../../../console/', import.meta.url))

const PREFIX = '/console/'

const types: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
}

const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
].join('; ')

const safety = {
  'content-security-policy': policy,
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  vary: 'Accept-Encoding',
}

const ONE_YEAR_S = 31_536_000

/** The routes of all files; one that explains how to build them if there are none. */
export function consoleFiles(folder = FOLDER): Readonly<Record<string, Methods>> {
  const toPage: Methods = { GET: () => moved(PREFIX) }
  const root = { '/console': toPage, '/': toPage }
  if (!existsSync(join(folder, 'index.html'))) return { ...root, [PREFIX]: { GET: notBuilt } }
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  const files = names.filter((name) => types[endingOf(name)] !== undefined)
  const routes = files.map((name) => [pathOf(name), { GET: fileHandler(folder, name) }] as const)
  return { ...root, ...Object.fromEntries(routes) }
}

function pathOf(name: string): string {
  return `${PREFIX}${name === 'index.html' ? '' : name.replaceAll('\\', '/')}`
}

function endingOf(name: string): string {
  return name.slice(name.lastIndexOf('.'))
}

function fileHandler(folder: string, name: string): (request: ApiRequest) => ApiResponse {
  const plain = readFileSync(join(folder, name))
  const packed = existsSync(join(folder, `${name}.gz`))
    ? readFileSync(join(folder, `${name}.gz`))
    : undefined
  const type = types[endingOf(name)] ?? ''
  const isPage = name === 'index.html'
  const headers = {
    ...safety,
    'cache-control': isPage ? 'no-store' : `public, max-age=${ONE_YEAR_S}, immutable`,
  }
  return ({ headers: asked }) => {
    const isPacked = packed !== undefined && /\bgzip\b/.test(asked['accept-encoding'] ?? '')
    if (!isPacked) return { status: 200, type, body: plain, headers }
    return { status: 200, type, body: packed, headers: { ...headers, 'content-encoding': 'gzip' } }
  }
}

function moved(path: string): ApiResponse {
  return { status: 302, type: 'text/plain; charset=utf-8', body: '', headers: { location: path } }
}

function notBuilt(): never {
  throw new ApiError(404, 'The console is not built: run ./run.sh console, or ./run.sh pack.')
}
