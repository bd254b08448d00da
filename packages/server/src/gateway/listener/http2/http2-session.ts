/** A connection of a client that speaks HTTP/2: when it ends. Its requests are read elsewhere. */

import type { ServerHttp2Session } from 'node:http2'

export class Http2Session {
  readonly #session: ServerHttp2Session

  constructor(session: ServerHttp2Session, keepAliveMs: number) {
    this.#session = session
    session.on('error', () => session.destroy())
    // A client that has ended its side cannot open a window, so a blocked response never ends.
    session.socket.once('end', () => session.destroy())
    session.setTimeout(keepAliveMs, () => session.close())
  }

  /**
   * Asks the client to open no more streams, and closes the connection when all streams have ended.
   * GOAWAY names the last stream that is served, so a client may safely retry later ones elsewhere.
   * nghttp2 ignores new streams after any GOAWAY, so it is sent only once.
   * https://www.rfc-editor.org/rfc/rfc9113#section-6.8
   */
  sendAway(): void {
    if (!this.#session.destroyed) this.#session.close()
  }
}
