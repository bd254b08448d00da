/** Sends many pipelined requests on one connection, and returns the statuses. */

import { connect } from 'node:net'
import { LOOPBACK } from '../support/servers/ports.ts'

/** Requests per write; more would only wait in memory. */
const REQUESTS_AT_ONCE = 250

/** `request` returns the bytes of each request; all responses must have a Content-Length. */
export function pipelined(
  port: number,
  count: number,
  request: (at: number) => string,
): Promise<number[]> {
  return new Promise((resolve, reject) => {
    const statuses: number[] = []
    const socket = connect({ port, host: LOOPBACK })
    const reader = new AnswerReader((status) => statuses.push(status))
    let sent = 0
    const sendSome = () => {
      const end = Math.min(count, sent + REQUESTS_AT_ONCE)
      let text = ''
      for (; sent < end; sent += 1) text += request(sent)
      socket.write(text, 'latin1')
    }
    socket.setEncoding('latin1')
    socket.on('data', (chunk) => {
      reader.read(String(chunk))
      if (statuses.length === count) socket.destroy()
      else if (statuses.length === sent) sendSome()
    })
    socket.on('error', reject)
    socket.on('close', () => {
      if (statuses.length === count) resolve(statuses)
      else reject(new Error(`the connection ended after ${statuses.length} of ${count} answers`))
    })
    sendSome()
  })
}

class AnswerReader {
  readonly #onStatus: (status: number) => void
  #rest = ''

  constructor(onStatus: (status: number) => void) {
    this.#onStatus = onStatus
  }

  read(text: string): void {
    this.#rest += text
    for (;;) {
      const headEndAt = this.#rest.indexOf('\r\n\r\n')
      if (headEndAt === -1) return
      const head = this.#rest.slice(0, headEndAt)
      const length = Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1] ?? 0)
      const end = headEndAt + 4 + length
      if (this.#rest.length < end) return
      this.#onStatus(Number(head.slice(9, 12)))
      this.#rest = this.#rest.slice(end)
    }
  }
}
