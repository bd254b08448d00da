/**
 * Serves HTTP/1 connections by `node:http`, for operators that prefer its parser to the gateway's
 * own. Limits, timeouts and checks of heads are the gateway's: `node:http` only reads and writes.
 */

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { HEADERS_MAX } from '../../request-head.ts'
import type { Connection } from '../connections.ts'
import type { Http1Owner, ServedConnection } from '../http1/http1-connection.ts'
import { NodeConnection } from './node-connection.ts'

/** Returns a function that serves a socket. The server of `node:http` never listens itself. */
export function nodeHttp1(
  owner: Http1Owner,
): (socket: Socket, connection: Connection) => ServedConnection {
  const connections = new WeakMap<Duplex, NodeConnection>()
  const server = createServer(serverOptions(owner))
  // One more than a request may have, so that too many fields are noticed and not dropped.
  server.maxHeadersCount = HEADERS_MAX + 1
  const take = (incoming: IncomingMessage, outgoing: ServerResponse) => {
    connections.get(incoming.socket)?.take(incoming, outgoing)
  }
  const takeOver = (incoming: IncomingMessage, socket: Duplex, early: Buffer) => {
    connections.get(socket)?.takeOver(incoming, early)
  }
  server.on('request', take).on('checkContinue', take).on('checkExpectation', take)
  server.on('upgrade', takeOver).on('connect', takeOver)
  server.on('clientError', (error, socket) => connections.get(socket)?.onClientError(error))
  const waiting = { count: 0 }
  return (socket, connection) => {
    const served = new NodeConnection(socket, connection, owner, waiting)
    connections.set(socket, served)
    server.emit('connection', socket)
    return served
  }
}

function serverOptions({ headBytesMax, timeouts }: Http1Owner) {
  return {
    maxHeaderSize: headBytesMax,
    keepAliveTimeout: timeouts.keepAlive,
    // Overrides --insecure-http-parser.
    insecureHTTPParser: false,
    // The gateway refuses such requests itself, and logs them.
    requireHostHeader: false,
    // Requests without a body do not need the events of a stream.
    optimizeEmptyRequests: true,
    // A request to switch to another protocol, such as h2c, is an ordinary request.
    shouldUpgradeCallback: ({ headers }: IncomingMessage) =>
      headers.upgrade?.toLowerCase() === 'websocket',
  }
}
