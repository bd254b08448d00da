/**
 * Sends the body of a long page in chunks, each made in its own turn of the event loop, so that
 * other requests wait for one chunk at most. Makes no more chunks than the client reads.
 */

import type { ServerResponse } from 'node:http'

/** Takes less than a millisecond to make. */
const CHUNK_CHARS = 32_768

/** Call it after `writeHead`. */
export function sendLines(response: ServerResponse, lines: Iterator<string>): void {
  const next = () => {
    if (response.destroyed) return
    const { text, isLast } = chunkOf(lines)
    if (isLast) response.end(text)
    else if (response.write(text)) setImmediate(next)
    else response.once('drain', next)
  }
  next()
}

function chunkOf(lines: Iterator<string>): { text: string; isLast: boolean } {
  let text = ''
  while (text.length < CHUNK_CHARS) {
    const { done, value } = lines.next()
    if (done === true) return { text, isLast: true }
    text += `${value}\n`
  }
  return { text, isLast: false }
}
