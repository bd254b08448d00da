import { connect, createServer, type Socket } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { HandedConnections, HandingListener, type HandMessage } from './handed-connections.ts'
import { listen } from './listener.ts'

/** A supervisor and its workers in one process. A worker that hangs reads no message. */
function setup(count: number) {
  const supervisor = new HandingListener()
  onTestFinished(() => supervisor.close())
  const workers = Array.from({ length: count }, (_, id) => {
    let receive: (message: unknown, socket: Socket | undefined) => void = () => undefined
    const worker = { hangs: false, served: 0 }
    const channel = {
      send(message: HandMessage, socket?: Socket) {
        if (worker.hangs) return
        // Another process would get a socket that is not paused.
        receive(message, socket?.resume())
      },
    }
    const connections = new HandedConnections({
      onMessage: (listener) => {
        receive = listener
      },
      send: (message) => queueMicrotask(() => supervisor.onMessage(id, channel, message)),
    })
    const start = (port: number) =>
      listen(
        (_, response) => {
          worker.served += 1
          response.end('ok')
        },
        { host: '127.0.0.1', port, connections },
      )
    return { worker, start }
  })
  return { supervisor, workers }
}

async function ask(port: number): Promise<string> {
  const response = await fetch(`http://127.0.0.1:${port}`, { headers: { connection: 'close' } })
  return response.text()
}

test('every connection goes to a worker that answers', async () => {
  const { workers } = setup(2)
  const [first, second] = workers
  if (first === undefined || second === undefined) throw new Error('no workers')
  const { address } = await first.start(0)
  const other = await second.start(0)
  expect(other.address).toEqual(address)
  first.worker.hangs = true
  for (let at = 0; at < 4; at++) expect(await ask(address.port)).toBe('ok')
  expect([first.worker.served, second.worker.served]).toEqual([0, 4])
  first.worker.hangs = false
  await other.close()
  expect(await ask(address.port)).toBe('ok')
  expect([first.worker.served, second.worker.served]).toEqual([1, 4])
})

test('a connection waits for a worker that starts', async () => {
  const { workers } = setup(2)
  const [first, second] = workers
  if (first === undefined || second === undefined) throw new Error('no workers')
  const { address, close } = await first.start(0)
  await close()
  const asked = ask(address.port)
  // Connections are accepted in order, so that the one above waits when this one is open.
  await new Promise<void>((resolve) => {
    const other = connect(address.port, '127.0.0.1', () => other.end(resolve))
  })
  await second.start(0)
  expect(await asked).toBe('ok')
})

test('a port that is taken fails with its code and place', async () => {
  const taken = createServer()
  await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void taken.close())
  const { port } = taken.address() as { port: number }
  const { workers } = setup(1)
  await expect(workers[0]?.start(port)).rejects.toMatchObject({ code: 'EADDRINUSE', port })
})
