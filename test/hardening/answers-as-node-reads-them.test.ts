/**
 * The reader of answers against that of node:http, each with a connection to a server that sends
 * the bytes. What ours accepts node accepts too, and finds the same in it. Ours may refuse more.
 */

import { request as nodeRequest } from 'node:http'
import { createServer, type Socket } from 'node:net'
import { isDeepStrictEqual } from 'node:util'
import { describe, expect, onTestFinished, test } from 'vitest'
import { makePool, requestFor } from '../gateway/pool-client.ts'
import { listening } from '../gateway/test-upstream.ts'
import { LOOPBACK } from '../servers/ports.ts'
import { type AnswerShape, answerShapes } from './answer-shapes.ts'

const SEED = 20_260_101
const SHAPES = 4_000
const AT_ONCE = 8

/**
 * What node reads and ours does not: empty lines in front, control characters in a text, codings
 * that are chunked twice or something else, extensions that are none, late words on the length.
 */
const stricterKinds: readonly string[] = [
  'a chunk has no valid size',
  'a chunk is longer than its size',
  'the answer has no valid status line',
  'the head of the answer has control characters',
  'the only transfer coding of an answer is chunked',
  'the trailers tell a length of the body',
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
  /** What is wrong: ours differs, or refuses what is valid. */
  readonly different: unknown[]
  /** Why ours refuses what node reads, with an example each. */
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
  if (typeof ours === 'string') {
    found.refused += 1
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
    // Behind an answer there may be what is none; that is not the answer's.
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
    pool.sendApart(requestFor({ method, target }), {
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
