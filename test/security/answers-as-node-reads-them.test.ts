/**
 * Compares our response reader with node:http, each with a connection to a server that sends the
 * bytes. Node accepts every response that ours accepts, and reads the same. Ours may refuse more.
 */

import { request as nodeRequest } from 'node:http'
import { createServer, type Socket } from 'node:net'
import { isDeepStrictEqual } from 'node:util'
import { describe, expect, onTestFinished, test } from 'vitest'
import { makePool, requestFor } from '../e2e/gateway/pool-client.ts'
import { listening } from '../e2e/gateway/test-upstream.ts'
import { differs } from '../e2e/gateway/transport-differences.ts'
import { LOOPBACK } from '../support/servers/ports.ts'
import { sizes } from '../support/suite.ts'
import { type AnswerShape, answerShapes } from './answer-shapes.ts'

const SEED = 20_260_101
const SHAPES = sizes.comparedShapes
const AT_ONCE = 8

/**
 * Responses that node reads and ours refuses: leading empty lines, control characters, unknown or
 * repeated codings, invalid chunk extensions, a late Content-Length.
 */
const stricterKinds: readonly string[] = [
  'a chunk has no valid size',
  'a chunk is longer than its size',
  'the response has no valid status line',
  'the head of the response has control characters',
  'the only transfer coding of a response is chunked',
  'the trailers declare a length of the body',
  ...(differs('lengthWithSpace')
    ? ['Response body length does not match content-length header']
    : []),
]

interface ReadAnswer {
  readonly status: number
  readonly statusText: string
  /** Names in lower case. */
  readonly headers: readonly string[]
  readonly body: string
  readonly trailers: readonly string[]
}

type Pool = ReturnType<typeof makePool>

type Reading = ReadAnswer | string

async function startShapeServer(shapes: readonly AnswerShape[]): Promise<number> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    let text = ''
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    socket.on('error', () => socket.destroy())
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1')
      const shape = shapes[Number(/^\w+ \/(\d+) .*\r\n\r\n$/s.exec(text)?.[1])]
      if (shape !== undefined) socket.end(shape.text, 'latin1')
    })
  })
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return listening(server)
}

interface Comparison {
  accepted: number
  acceptedDamaged: number
  refused: number
  /** Errors: ours differs, or refuses a valid response. */
  readonly different: unknown[]
  /** Reasons for which ours refuses a response that node reads, with an example each. */
  readonly stricter: Map<string, string>
}

async function compareAll(shapes: readonly AnswerShape[], port: number, pool: Pool) {
  const found: Comparison = {
    accepted: 0,
    acceptedDamaged: 0,
    refused: 0,
    different: [],
    stricter: new Map(),
  }
  let next = 0
  const compareMany = async () => {
    while (next < shapes.length) {
      const at = next++
      const shape = shapes[at] as AnswerShape
      const [node, ours] = await Promise.all([
        readByNode(port, `/${at}`, shape.method),
        readByOurs(pool, `/${at}`, shape.method),
      ])
      compare(shape, node, ours, found)
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, compareMany))
  return found
}

function compare(
  { text, isDamaged }: AnswerShape,
  node: Reading,
  ours: Reading,
  found: Comparison,
) {
  // undici decodes the text as UTF-8, and the gateway drops it then.
  if (differs('statusText') && typeof node !== 'string') {
    if (/[^\t\x20-\x7e]/.test(node.statusText)) node = { ...node, statusText: '' }
  }
  if (typeof ours === 'string') {
    found.refused += 1
    if (differs('continue') && text.includes('HTTP/1.1 100 ')) return
    if (!isDamaged) found.different.push({ text, ours })
    else if (typeof node !== 'string') found.stricter.set(ours, text)
    return
  }
  found[isDamaged ? 'acceptedDamaged' : 'accepted'] += 1
  if (!isDeepStrictEqual(ours, node)) found.different.push({ text, ours, node })
}

function readByNode(port: number, path: string, method: string): Promise<Reading> {
  return new Promise((resolve) => {
    const request = nodeRequest({ host: LOOPBACK, port, path, method, agent: false })
    let hasAnswer = false
    // Invalid bytes after a response are not part of it.
    request.on('error', (error) => !hasAnswer && resolve(error.message))
    request.on('upgrade', (_response, socket) => {
      socket.destroy()
      resolve('upgrade')
    })
    request.on('response', (response) => {
      let body = ''
      hasAnswer = true
      response.setEncoding('latin1')
      response.on('data', (text) => {
        body += text
      })
      response.on('error', (error) => resolve(error.message))
      response.on('end', () => {
        const { statusCode: status = 0, statusMessage: statusText = '', complete } = response
        const [headers, trailers] = [lower(response.rawHeaders), lower(response.rawTrailers)]
        resolve(complete ? { status, statusText, headers, body, trailers } : 'incomplete')
      })
    })
    request.end()
  })
}

function readByOurs(pool: Pool, target: string, method: string): Promise<Reading> {
  return new Promise((resolve) => {
    let [status, statusText, body] = [0, '', '']
    let headers: readonly string[] = []
    pool.sendOnNewConnection(requestFor({ method, target }), {
      onInterim: () => undefined,
      onHead(head) {
        ;({ status, statusText, headers } = head)
      },
      onData(chunk) {
        body += chunk.toString('latin1')
        return true
      },
      onEnd: (trailers = []) => resolve({ status, statusText, headers, body, trailers }),
      onSwitched: () => resolve('switched'),
      onError: (error) => resolve(error.message),
    })
  })
}

function lower(raw: readonly string[]): string[] {
  return raw.map((text, at) => (at % 2 === 0 ? text.toLowerCase() : text))
}

describe('answers, valid and damaged', () => {
  test('are read as node:http reads them, or not at all', async () => {
    const shapes = [...answerShapes(SEED, SHAPES)]
    const port = await startShapeServer(shapes)
    const pool = makePool(`http://${LOOPBACK}:${port}`)
    const found = await compareAll(shapes, port, pool)
    expect(found.different).toEqual([])
    const others = [...found.stricter].filter(([kind]) => !stricterKinds.includes(kind))
    expect(others).toEqual([])
    expect(found.accepted).toBeGreaterThan(SHAPES / 5)
    expect(found.acceptedDamaged).toBeGreaterThan(SHAPES / 10)
    expect(found.refused).toBeGreaterThan(SHAPES / 5)
  })
})
