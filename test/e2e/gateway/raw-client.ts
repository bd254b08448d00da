/** A client that sends exactly the given bytes, and reads until the server closes. */

import { connect, type Socket } from 'node:net'

export interface RawResponse {
  readonly status: number
  /** Names in lower case; values of the same name are joined by commas. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  readonly text: string
}

/** Sends and reads until the server closes; ask for that by `Connection: close`. */
export function sendRaw(port: number, bytes: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = ''
    const socket = connect({ port, host: '127.0.0.1' })
    socket.setEncoding('latin1')
    socket.on('data', (chunk) => {
      text += chunk
    })
    socket.on('error', (error) => (text === '' ? reject(error) : resolve(text)))
    socket.on('close', () => resolve(text))
    socket.write(bytes, 'latin1')
  })
}

export async function askRaw(port: number, bytes: string): Promise<RawResponse> {
  return parseResponse(await sendRaw(port, bytes))
}

export function parseResponse(text: string): RawResponse {
  const endAt = text.indexOf('\r\n\r\n')
  const [line = '', ...fields] = text.slice(0, endAt).split('\r\n')
  const headers: Record<string, string> = Object.create(null)
  for (const field of fields) {
    const colonAt = field.indexOf(':')
    const name = field.slice(0, colonAt).toLowerCase()
    const value = field.slice(colonAt + 1).trim()
    headers[name] = headers[name] === undefined ? value : `${headers[name]}, ${value}`
  }
  return { status: Number(line.split(' ')[1]), headers, body: text.slice(endAt + 4), text }
}

/** A connection that stays open between requests. */
export function openRaw(port: number): { socket: Socket; received: () => string } {
  let text = ''
  const socket = connect({ port, host: '127.0.0.1' })
  socket.setEncoding('latin1')
  socket.on('error', () => undefined)
  socket.on('data', (chunk) => {
    text += chunk
  })
  return { socket, received: () => text }
}
