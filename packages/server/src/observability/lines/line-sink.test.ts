import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, renameSync, rmSync, truncateSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { until } from '../../../../../test/support/servers/until.ts'
import { LineSink } from './line-sink.ts'

function place(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tidegate-lines-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return join(folder, 'access.log')
}

const linesOf = (file: string) => readFileSync(file, 'latin1').split('\n').slice(0, -1)

test('lines arrive whole and in order', async () => {
  const file = place()
  const sink = new LineSink(file)
  for (let at = 0; at < 10_000; at++) sink.write(`line ${at} ${'x'.repeat(at % 90)}\n`)
  await sink.close()
  expect(linesOf(file).map((line) => Number(line.split(' ')[1]))).toEqual([...Array(10_000).keys()])
  expect(sink.dropped).toEqual({ full: 0, failed: 0 })
})

test('a full buffer drops lines and counts them', async () => {
  const file = place()
  const sink = new LineSink(file, { bytesMax: 100 })
  for (let at = 0; at < 30; at++) sink.write('0123456789\n')
  await sink.close()
  const written = linesOf(file).length
  expect(written).toBe(9)
  expect(sink.dropped).toEqual({ full: 21, failed: 0 })
})

test('a file that was renamed keeps its lines, and the next ones go to a new file', async () => {
  const file = place()
  const sink = new LineSink(file)
  sink.write('before\n')
  await until('it is written', () => linesOf(file).length === 1)
  renameSync(file, `${file}.1`)
  // A batch under way ends in the old file.
  for (let at = 0; at < 20_000; at++) sink.write(`old ${at}\n`)
  sink.reopen()
  sink.write('after\n')
  await sink.close()
  const all = [...linesOf(`${file}.1`), ...linesOf(file)]
  expect(all).toHaveLength(20_002)
  expect([all[0], all.at(-1)]).toEqual(['before', 'after'])
  expect(linesOf(file).every((line) => /^(old \d+|after)$/.test(line))).toBe(true)
})

test('a file that was truncated in place is continued without a gap', async () => {
  const file = place()
  const sink = new LineSink(file)
  sink.write('one\n')
  await until('it is written', () => linesOf(file).length === 1)
  truncateSync(file)
  sink.write('two\n')
  await sink.close()
  expect(linesOf(file)).toEqual(['two'])
})

test('a full disk drops lines, reports why, and does not throw', async () => {
  const reasons: string[] = []
  const sink = new LineSink('/dev/full', { onFailed: (reason) => void reasons.push(reason) })
  sink.write('one\n')
  sink.write('two\n')
  await until('it has failed', () => reasons.length > 0)
  expect([reasons, sink.dropped]).toEqual([['ENOSPC'], { full: 0, failed: 2 }])
  await sink.close()
})

test('a pipe without a reader is refused, and a lost reader is reported', async () => {
  const file = place()
  execFileSync('mkfifo', [file])
  expect(() => new LineSink(file)).toThrow('ENXIO')
  const reader = spawn('sh', ['-c', `read line < ${file}; echo "$line"; exec sleep 60`])
  const reasons: string[] = []
  let sink: LineSink | undefined
  await until('there is a reader', () => {
    sink = new LineSink(file, { onFailed: (reason) => void reasons.push(reason) })
    return true
  })
  sink?.write('hello\n')
  const [chunk] = await once(reader.stdout, 'data')
  expect(String(chunk)).toBe('hello\n')
  await until('the write fails', () => {
    sink?.write('more\n')
    return reasons.length > 0
  })
  expect(reasons[0]).toBe('EPIPE')
  reader.kill('SIGKILL')
  await sink?.close()
})

test('a reader that stops reading costs a bounded number of lines, and closing ends', async () => {
  const file = place()
  execFileSync('mkfifo', [file])
  const reader = spawn('sh', ['-c', `exec 3< ${file}; exec sleep 60`])
  let sink: LineSink | undefined
  await until('there is a reader', () => {
    sink = new LineSink(file, { bytesMax: 1_000_000 })
    return true
  })
  for (let at = 0; at < 50_000; at++) sink?.write(`${'x'.repeat(99)}\n`)
  expect(sink?.dropped.full).toBe(40_000)
  await sink?.close()
  reader.kill('SIGKILL')
})
