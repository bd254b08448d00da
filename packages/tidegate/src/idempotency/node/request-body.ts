/**
 * The body of a request of node:http, for its fingerprint. A body that a parser has read is taken
 * from there. Otherwise the bytes are read and put back, so that a parser can still read them.
 */

import type { IncomingMessage } from 'node:http'

/** A request, with the body that a parser may have left. */
export type ParsedRequest = IncomingMessage & { readonly body?: unknown }

/** Undefined if there are more than `bytesMax` bytes. Rejects if the client disconnects. */
export function bodyOf(
  request: IncomingMessage,
  parsed: unknown,
  bytesMax: number,
): Promise<Uint8Array | undefined> | Uint8Array | string | undefined {
  if (parsed !== undefined) return parsedBody(parsed)
  if (request.readableEnded || !hasBody(request)) return ''
  if (Number(request.headers['content-length'] ?? 0) > bytesMax) return undefined
  return readAndPutBack(request, bytesMax)
}

/** Parsers keep the order of properties, so equal bytes give equal text. */
export function parsedBody(parsed: unknown): Uint8Array | string {
  if (typeof parsed === 'string' || parsed instanceof Uint8Array) return parsed
  return JSON.stringify(parsed) ?? ''
}

function hasBody({ headers }: IncomingMessage): boolean {
  const length = headers['content-length']
  return headers['transfer-encoding'] !== undefined || (length !== undefined && length !== '0')
}

function readAndPutBack(
  request: IncomingMessage,
  bytesMax: number,
): Promise<Uint8Array | undefined> {
  const chunks: Buffer[] = []
  let bytes = 0
  return new Promise((resolve, reject) => {
    const end = (result: Uint8Array | undefined) => {
      stop()
      resolve(result)
    }
    const fail = () => {
      stop()
      reject(new Error('the client has disconnected'))
    }
    const onReadable = () => {
      for (let chunk = request.read(); chunk !== null; chunk = request.read()) {
        chunks.push(chunk)
        bytes += chunk.length
        if (bytes > bytesMax) return end(undefined)
      }
      if (!request.complete) return
      // Before the stream reports its end, which it does in the next turn, bytes can be put back.
      const all = Buffer.concat(chunks)
      if (all.length > 0) request.unshift(all)
      end(all)
    }
    const stop = () => {
      request.off('readable', onReadable)
      request.off('error', fail)
      request.off('close', fail)
    }
    request.on('readable', onReadable)
    request.on('error', fail)
    request.on('close', fail)
  })
}
