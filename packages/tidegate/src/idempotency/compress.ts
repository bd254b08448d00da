/** Compression of stored bodies: zlib on Node.js, outside of its event loop; streams elsewhere. */

import { builtinModule } from '../runtime.ts'

type Done = (error: Error | null, bytes: Uint8Array<ArrayBuffer>) => void

interface NodeZlib {
  deflateRaw(bytes: Uint8Array, options: { level: number }, done: Done): void
  inflateRaw(bytes: Uint8Array, options: { maxOutputLength: number }, done: Done): void
}

const zlib = builtinModule('node:zlib') as NodeZlib | undefined

/** The fastest level takes a quarter of the time of the default, for a tenth more bytes. */
const LEVEL = 1

export function deflate(bytes: Uint8Array): Promise<Uint8Array<ArrayBuffer>> {
  if (zlib === undefined) return throughStream(bytes.slice(), new CompressionStream('deflate-raw'))
  return called((done) => zlib.deflateRaw(bytes, { level: LEVEL }, done))
}

/** Rejects if there are more than `bytesMax` bytes. */
export async function inflate(
  bytes: Uint8Array<ArrayBuffer>,
  bytesMax: number,
): Promise<Uint8Array<ArrayBuffer>> {
  if (zlib !== undefined) {
    return called((done) => zlib.inflateRaw(bytes, { maxOutputLength: bytesMax }, done))
  }
  const inflated = await throughStream(bytes, new DecompressionStream('deflate-raw'))
  if (inflated.length > bytesMax) throw new Error('the stored body is too large')
  return inflated
}

function called(call: (done: Done) => void): Promise<Uint8Array<ArrayBuffer>> {
  return new Promise((resolve, reject) => {
    call((error, bytes) => (error === null ? resolve(bytes) : reject(error)))
  })
}

async function throughStream(
  bytes: Uint8Array<ArrayBuffer>,
  stream: CompressionStream | DecompressionStream,
): Promise<Uint8Array<ArrayBuffer>> {
  const { body } = new Response(bytes)
  if (body === null) return new Uint8Array()
  return new Uint8Array(await new Response(body.pipeThrough(stream)).arrayBuffer())
}
