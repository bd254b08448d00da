/** The snippets of docs/redis.md for other clients, run unchanged on real servers. */

import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { createLimiter, type Store, tokenBucket } from 'tidegate'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { snippetsOf } from '../house/snippets.ts'
import { readText, repositoryRoot } from '../house/source-file.ts'
import { patient } from '../support/patience.ts'
import { startCluster } from '../support/servers/cluster.ts'
import { startRedis } from '../support/servers/redis.ts'
import { startUpstash } from '../support/servers/upstash.ts'
import { useServer } from '../support/use-server.ts'

const place = join(repositoryRoot, '.cache', `recipes-${process.pid}`)

const hasGlide = await import('@valkey/valkey-glide').then(
  () => true,
  () => false,
)

const server = useServer(() => startRedis())
const cluster = useServer(() => startCluster({ masters: 3, replicasPerMaster: 0 }))

beforeAll(() => void mkdirSync(place, { recursive: true }))

afterAll(() => rmSync(place, { recursive: true, force: true }))

test('Upstash over HTTP', async () => {
  const { connectStore } = await recipe<{ connectStore(url: string, token: string): Store }>(
    '@upstash/redis',
  )
  const { url, token, stop } = await startUpstash(server)
  expect(await admitted(connectStore(url, token), 'of Upstash')).toBe(50)
  await stop()
})

interface GlideRecipe {
  connectStore(
    addresses: { host: string; port: number }[],
    isCluster?: boolean,
  ): Promise<{ store: Store; close(): void }>
}

// GLIDE is a native module, which not every platform has.
test.skipIf(!hasGlide)('Valkey GLIDE on one server and on Cluster', async () => {
  const { connectStore } = await recipe<GlideRecipe>('@valkey/valkey-glide')
  const { host, port } = server
  const connections = [
    await connectStore([{ host, port }]),
    await connectStore(
      cluster.addresses.map((address) => ({ host: address.host, port: address.port })),
      true,
    ),
  ]
  for (const { store, close } of connections) {
    expect(await admitted(store, 'of GLIDE')).toBe(50)
    close()
  }
})

/** The exports of the snippet that imports the package. */
async function recipe<Exports>(client: string): Promise<Exports> {
  const snippets = snippetsOf('redis.md', readText('docs/redis.md'))
  const found = snippets.find(({ code }) => code.includes(`from '${client}'`))
  if (found === undefined) throw new Error(`docs/redis.md has no snippet for ${client}`)
  const path = join(place, found.file)
  writeFileSync(path, found.code)
  return import(pathToFileURL(path).href)
}

/** The number of admitted calls of 80 at once, with a limit of 50. */
async function admitted(store: Store, key: string): Promise<number> {
  const limiter = createLimiter({
    limit: tokenBucket({ limit: 50, per: '30d' }),
    store,
    ...patient,
    onStoreError: 'closed',
  })
  const decisions = await Promise.all(Array.from({ length: 80 }, () => limiter.check(key)))
  await limiter.close()
  return decisions.filter(({ allowed }) => allowed).length
}
