/**
 * What the system still has to send on its connections. A client that reads slowly is told from one
 * that does not read by this only: the system takes megabytes from us at once, and then nothing for
 * as long as they take. Linux tells; elsewhere nobody does.
 */

import { readFile } from 'node:fs/promises'
import type { Socket } from 'node:net'

export interface SendQueues {
  /** In bytes; undefined where that is not known. */
  of(socket: Pick<Socket, 'localPort' | 'remotePort'>): number | undefined
}

const FILES = ['/proc/net/tcp', '/proc/net/tcp6']

/** A line each: local address and port, remote ones, state (established), and bytes to be sent. */
const waiting = /: [0-9A-F]+:([0-9A-F]{4}) [0-9A-F]+:([0-9A-F]{4}) 01 (?!00000000)([0-9A-F]{8}):/g

export async function readSendQueues(): Promise<SendQueues | undefined> {
  if (process.platform !== 'linux') return undefined
  const texts = await Promise.all(FILES.map((file) => readFile(file, 'latin1').catch(() => '')))
  return texts.some((text) => text !== '') ? parseSendQueues(texts.join('')) : undefined
}

/** Two clients of different addresses may have the same port; then it is both of theirs. */
export function parseSendQueues(text: string): SendQueues {
  const bytes = new Map<string, number>()
  for (const [, local = '', remote = '', queue = ''] of text.matchAll(waiting)) {
    const ports = keyOf(Number.parseInt(local, 16), Number.parseInt(remote, 16))
    bytes.set(ports, (bytes.get(ports) ?? 0) + Number.parseInt(queue, 16))
  }
  return {
    of: ({ localPort, remotePort }) => {
      if (localPort === undefined || remotePort === undefined) return undefined
      return bytes.get(keyOf(localPort, remotePort)) ?? 0
    },
  }
}

function keyOf(localPort: number, remotePort: number): string {
  return `${localPort} ${remotePort}`
}
