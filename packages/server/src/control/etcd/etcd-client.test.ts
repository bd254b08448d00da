import { createServer } from 'node:http'
import { type AddressInfo, createServer as createSocketServer } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { until } from '../../../../../test/support/servers/until.ts'
import { EtcdClient } from './etcd-client.ts'

/** A server that accepts connections and does not answer, as one that is stopped. */
async function silentMember() {
  let connections = 0
  const server = createSocketServer((socket) => {
    connections++
    socket.on('error', () => undefined)
    onTestFinished(() => void socket.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}`, asked: () => connections }
}

const options = { timeoutMs: 200, isRepeatable: true }

test('when all members are silent, later calls ask one of them each', async () => {
  const members = await Promise.all([silentMember(), silentMember(), silentMember()])
  const client = new EtcdClient({ endpoints: members.map(({ url }) => url), prefix: '/' })
  onTestFinished(() => client.close())
  const asked = () => members.map((member) => member.asked())
  await expect(client.call('/v3/kv/range', {}, options)).rejects.toMatchObject({ kind: 'away' })
  expect(asked()).toEqual([1, 1, 1])
  await expect(client.call('/v3/kv/range', {}, options)).rejects.toMatchObject({ kind: 'away' })
  expect(asked().toSorted()).toEqual([1, 1, 2])
})

test('a member that is back is found, and ends that', async () => {
  const silent = await silentMember()
  const server = createServer((_request, response) => response.end('{}'))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  let isBack = false
  server.prependListener('request', (request) => {
    if (!isBack) request.socket.destroy()
  })
  const endpoints = [silent.url, `http://127.0.0.1:${port}`]
  const client = new EtcdClient({ endpoints, prefix: '/' })
  onTestFinished(() => client.close())
  await expect(client.call('/v3/kv/range', {}, options)).rejects.toMatchObject({ kind: 'away' })
  isBack = true
  await until('the member answers', async () => {
    const answer = await client.call('/v3/kv/range', {}, options).catch(() => undefined)
    return answer !== undefined
  })
  const asked = silent.asked()
  await expect(client.call('/v3/kv/range', {}, options)).resolves.toEqual({})
  expect(silent.asked()).toBe(asked)
})
