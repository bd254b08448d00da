/** Tests of attacks over HTTP/1 again, on `gateway.transport: node`. */

import { useTransport } from '../e2e/gateway/transport.ts'

useTransport('node')
await import('./answers-as-node-reads-them.test.ts')
await import('./forwarded-for.test.ts')
await import('./header-names.test.ts')
await import('./large-messages.test.ts')
await import('./logs.test.ts')
await import('./path-spellings.test.ts')
await import('./requests-as-node-reads-them.test.ts')
await import('./silent-sockets.test.ts')
await import('./slow-clients.test.ts')
await import('./small-pieces.test.ts')
await import('./unsolicited-answers.test.ts')
await import('./vanished-clients.test.ts')
