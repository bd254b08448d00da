/** The rate limit service in a process of its own; folder, Redis and transport are arguments. */

import { startRls } from '../../../packages/server/src/app/rls-service.ts'

const [configDirectory = '', redis = '', transport] = process.argv.slice(2)

const rls = await startRls({
  configDirectory,
  grpc: { host: '127.0.0.1', port: 0 },
  http: undefined,
  debug: undefined,
  transport: transport === 'node' ? 'node' : 'own',
  store: { mode: 'standalone', addresses: [redis] },
  // On a busy machine a late answer would be an error, which is faster than counting.
  storeDeadlineMs: 1_000,
})
process.send?.('port' in rls.addresses.grpc ? rls.addresses.grpc.port : 0)
process.on('disconnect', () => process.exit())
