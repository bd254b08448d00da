/** Unsolicited responses of an upstream reach no client, in particular not the next one. */

import type { Socket } from 'node:net'
import { setImmediate } from 'node:timers'
import { describe, expect, test } from 'vitest'
import { askRaw } from '../e2e/gateway/raw-client.ts'
import { startTestGateway } from '../e2e/gateway/test-gateway.ts'
import { until } from '../support/servers/until.ts'
import { okWith, startRecordingUpstream } from './recording-upstream.ts'

const poison = okWith('poison')

/** Additions of an upstream to a response: in the same chunk, or in further ones. */
const additions: readonly (readonly [
  name: string,
  add: (answer: string, socket: Socket) => void,
])[] = [
  ['a second answer', (answer, socket) => socket.write(answer + poison)],
  [
    'a second answer in a piece of its own',
    (answer, socket) => {
      socket.write(answer)
      socket.write(poison)
    },
  ],
  [
    'the beginning of a second answer',
    (answer, socket) => {
      socket.write(`${answer}${poison.slice(0, 30)}`)
      setImmediate(() => socket.write(poison.slice(30)))
    },
  ],
  [
    'an early hint without an answer',
    (answer, socket) => {
      socket.write(`${answer}HTTP/1.1 103 Early Hints\r\nlink: </poison>\r\n\r\n`)
    },
  ],
  [
    'a word to go on',
    (answer, socket) => {
      socket.write(`${answer}HTTP/1.1 100 Continue\r\n\r\n${poison}`)
    },
  ],
  ['a body longer than it said', (answer, socket) => socket.write(`${answer}poison${poison}`)],
  [
    'a body where there must be none',
    (_answer, socket) => {
      socket.write(`HTTP/1.1 204 No Content\r\n\r\n${poison}`)
    },
  ],
  ['bytes that are no answer', (answer, socket) => socket.write(`${answer}poison\r\n\r\n`)],
  ['empty lines', (answer, socket) => socket.write(`${answer}\r\n\r\n${poison}`)],
]

const REQUESTS = 150
const AT_ONCE = 8

async function startPoisoned(write: (answer: string, socket: Socket) => void) {
  const upstream = await startRecordingUpstream(({ target }, socket) => {
    write(okWith(`<${target}>`), socket)
    return undefined
  })
  const upstreams = { api: { targets: [upstream.url], connectionsMax: 4, retries: 1 } }
  return startTestGateway({ upstreams })
}

/** Requests a unique path; a response for another path is an error. */
async function ask(port: number, path: string): Promise<string | undefined> {
  const head = `GET ${path} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n`
  const { status, body, text } = await askRaw(port, head)
  const isRight = status === 204 || (status === 200 && body === `<${path}>`) || status === 502
  return isRight && !text.includes('poison') ? undefined : text
}

describe('an upstream that adds to its answers', () => {
  test.each(additions)('%s: no client gets it', async (_name, write) => {
    const gateway = await startPoisoned(write)
    let asked = 0
    const wrong: string[] = []
    const askMany = async () => {
      while (asked < REQUESTS) {
        const text = await ask(gateway.port, `/${asked++}`)
        if (text !== undefined) wrong.push(text)
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, askMany))
    expect(wrong).toEqual([])
  })
})

describe('an upstream that sends bytes without a request', () => {
  test('loses the connection, and the next request takes another', async () => {
    const idle: Socket[] = []
    const closed = new Set<Socket>()
    const upstream = await startRecordingUpstream(({ target }, socket) => {
      if (!idle.includes(socket)) {
        idle.push(socket)
        socket.on('close', () => closed.add(socket))
      }
      return okWith(`<${target}>`)
    })
    const upstreams = { api: { targets: [upstream.url], connectionsMax: 1 } }
    const gateway = await startTestGateway({ upstreams })
    for (let round = 0; round < 30; round += 1) {
      expect(await ask(gateway.port, `/${round}`)).toBeUndefined()
      const socket = idle[round]
      socket?.write(poison)
      await until('it is closed', () => socket === undefined || closed.has(socket))
    }
    expect(upstream.requests).toHaveLength(30)
    expect(idle).toHaveLength(30)
  })
})
