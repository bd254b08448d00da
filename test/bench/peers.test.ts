/** Checks that keep the benchmarks from measuring a service that is missing or does not count. */

import { once } from 'node:events'
import { createServer, type ServerHttp2Stream } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { callsOver } from '../../bench/parts/rls/calls.ts'
import { envoyCalls } from '../../bench/parts/rls/service.ts'
import { peerProgram } from '../../bench/peers/peer-program.ts'
import type { Program } from '../../tools/install/install-program.ts'
import { until } from '../support/servers/until.ts'

const program: Program = {
  name: 'Example',
  variable: 'TIDEGATE_TEST_PEER',
  file: 'no-such-peer/program',
}

describe('a program of others', () => {
  test('is the one that the environment names', async () => {
    vi.stubEnv(program.variable, process.execPath)
    const { run, skipped, versions } = record()
    expect(await peerProgram(run, program)).toBe(process.execPath)
    expect(skipped).toEqual([])
    expect([...versions.keys()]).toEqual(['Example'])
  })

  test('that is missing is left out, with a line on how to install it', async () => {
    const goPackage = 'example.com/peer@v1.0.0'
    const { run, skipped } = record()
    expect(await peerProgram(run, program)).toBeUndefined()
    expect(await peerProgram(run, { ...program, goPackage })).toBeUndefined()
    expect(await peerProgram(run, { ...program, npmPackages: ['peer@1'] })).toBeUndefined()
    expect(skipped).toEqual([
      'Example: not installed (TIDEGATE_TEST_PEER names one that is installed elsewhere)',
      expect.stringContaining('Example: not installed (./run.sh bench --peers does it, with Go'),
      expect.stringContaining('Example: not installed (./run.sh bench --peers does it, with npm'),
    ])
  })

  test('that no registry has is not installed, even with --peers', async () => {
    const { run, skipped } = record(true)
    expect(await peerProgram(run, program)).toBeUndefined()
    expect(skipped).toEqual([expect.stringContaining('Example: no registry has it by name')])
  })
})

describe('calls', () => {
  test('are counted and timed when each has a message', async () => {
    const { perSecond, p50Ms, p99Ms, replyBytes } = await load((stream) => {
      stream.respond({ ':status': 200 }, { waitForTrailers: true })
      stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }))
      stream.end(Buffer.alloc(7))
    })
    expect(perSecond).toBeGreaterThan(0)
    expect(p99Ms).toBeGreaterThanOrEqual(p50Ms)
    expect(replyBytes).toBe(7)
  })

  test('that are answered with an error are not taken for calls that were counted', async () => {
    const answered = load((stream) => {
      stream.respond({ ':status': 200, 'grpc-status': '14' }, { endStream: true })
    })
    await expect(answered).rejects.toThrow('calls were answered with errors')
  })
})

function record(installsPeers = false) {
  const skipped: string[] = []
  const versions = new Map<string, string>()
  const run = {
    installsPeers,
    progress: () => undefined,
    skipped: (line: string) => void skipped.push(line),
    uses: (name: string, version: string) => void versions.set(name, version),
  }
  onTestFinished(() => void vi.unstubAllEnvs())
  return { run, skipped, versions }
}

async function load(answer: (stream: ServerHttp2Stream) => void) {
  const server = createServer()
  server.on('stream', (stream) => {
    stream.on('error', () => undefined)
    stream.resume()
    answer(stream)
  })
  server.on('sessionError', () => undefined)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  const { port } = server.address() as AddressInfo
  // A process that stalls for as long as the load lasts has counted nothing.
  const loaded = await until('calls are answered', async () => {
    const calls = callsOver({ port, path: envoyCalls.path }, [envoyCalls.body('t0')], 0.2)
    const [result] = await Promise.allSettled([calls])
    return (result.status === 'rejected' || result.value.perSecond > 0) && result
  })
  if (loaded.status === 'rejected') throw loaded.reason
  return loaded.value
}
