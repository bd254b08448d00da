import { describe, expect, it } from 'vitest'
import type { HeaderList } from '../header-list.ts'
import type { Body, BodySink } from './body.ts'
import { bodyError } from './body-error.ts'
import { bufferBody } from './buffer-body.ts'
import { teeBody } from './tee-body.ts'

/** A body whose test decides when bytes arrive. */
class TestBody implements Body {
  sink: BodySink | undefined
  isPaused = true
  isCancelled = false
  /** What `whole` returns, if the test wants a complete body. */
  bytes: Buffer | undefined

  whole(bytesMax: number): Buffer | undefined {
    return this.bytes !== undefined && this.bytes.length <= bytesMax ? this.bytes : undefined
  }

  pipe(sink: BodySink): void {
    this.sink = sink
    this.isPaused = false
    if (this.bytes !== undefined) sink.end(this.bytes, undefined)
  }

  resume(): void {
    this.isPaused = false
  }

  cancel(): void {
    this.isCancelled = true
  }

  /** Lets bytes arrive, as a source that stops reading when its sink is full. */
  arrive(text: string): void {
    if (this.isPaused) throw new Error('the body is paused')
    this.isPaused = this.sink?.write(Buffer.from(text)) === false
  }

  end(text?: string, trailers?: HeaderList): void {
    this.sink?.end(text === undefined ? undefined : Buffer.from(text), trailers)
  }
}

/** A sink whose test decides when it is full. */
class TestSink implements BodySink {
  text = ''
  isFull = false
  outcome: 'complete' | Error | undefined
  trailers: HeaderList | undefined

  write(chunk: Buffer): boolean {
    this.text += chunk
    return !this.isFull
  }

  end(chunk: Buffer | undefined, trailers: HeaderList | undefined): void {
    if (this.outcome !== undefined) throw new Error('the sink has two ends')
    this.text += chunk ?? ''
    this.trailers = trailers
    this.outcome = 'complete'
  }

  fail(error: Error): void {
    if (this.outcome !== undefined) throw new Error('the sink has two ends')
    this.outcome = error
  }
}

const BYTES_MAX = 8

/** A body of which 10 bytes have arrived, two more than are buffered. */
async function large() {
  const source = new TestBody()
  const buffered = bufferBody(source, BYTES_MAX)
  source.arrive('01234')
  source.arrive('56789')
  expect(source.isPaused).toBe(true)
  const body = await buffered
  if (Buffer.isBuffer(body)) throw new Error('the body fits')
  return { source, body }
}

describe('a body that fits', () => {
  it('is a Buffer once it is complete', async () => {
    const source = new TestBody()
    const buffered = bufferBody(source, BYTES_MAX)
    source.arrive('0123')
    source.arrive('456')
    source.end('7')
    expect(String(await buffered)).toBe('01234567')
  })

  it('is a Buffer at once if it was complete before', async () => {
    const source = new TestBody()
    source.bytes = Buffer.from('whole')
    expect(await bufferBody(source, BYTES_MAX)).toBe(source.bytes)
    expect(source.sink).toBeUndefined()
  })

  it('is an empty Buffer if it has no bytes', async () => {
    const source = new TestBody()
    const buffered = bufferBody(source, BYTES_MAX)
    source.end()
    expect(await buffered).toEqual(Buffer.alloc(0))
  })

  it('stays a body if it has trailers', async () => {
    const source = new TestBody()
    const buffered = bufferBody(source, BYTES_MAX)
    source.end('01', ['a', 'b'])
    const body = await buffered
    if (Buffer.isBuffer(body)) throw new Error('the trailers are lost')
    expect(body.whole(BYTES_MAX)).toBeUndefined()
    const sink = new TestSink()
    body.pipe(sink)
    expect(sink).toMatchObject({ text: '01', outcome: 'complete', trailers: ['a', 'b'] })
  })

  it('rejects if it fails', async () => {
    const source = new TestBody()
    const buffered = bufferBody(source, BYTES_MAX)
    source.arrive('0')
    source.sink?.fail(bodyError('TIDEGATE_BODY_ABORTED'))
    await expect(buffered).rejects.toMatchObject({ code: 'TIDEGATE_BODY_ABORTED' })
  })
})

describe('a larger body', () => {
  it('begins with the bytes read so far, and continues', async () => {
    const { source, body } = await large()
    const sink = new TestSink()
    body.pipe(sink)
    expect(sink.text).toBe('0123456789')
    source.arrive('ab')
    source.end('c', ['t', 'v'])
    expect(sink).toMatchObject({ text: '0123456789abc', outcome: 'complete', trailers: ['t', 'v'] })
  })

  it('is paused while its sink is full, and keeps chunks that still arrive', async () => {
    const { source, body } = await large()
    const sink = new TestSink()
    sink.isFull = true
    body.pipe(sink)
    expect(source.isPaused).toBe(true)
    expect(source.sink?.write(Buffer.from('late'))).toBe(false)
    expect(sink.text).toBe('0123456789')
    sink.isFull = false
    body.resume()
    expect(sink.text).toBe('0123456789late')
    expect(source.isPaused).toBe(false)
  })

  it('ends with all bytes also if it is complete before it is piped', async () => {
    const { source, body } = await large()
    source.end('ab')
    expect(String(body.whole(12))).toBe('0123456789ab')
    expect(body.whole(11)).toBeUndefined()
    const sink = new TestSink()
    body.pipe(sink)
    expect(sink).toMatchObject({ text: '0123456789ab', outcome: 'complete' })
  })

  it.each(['before', 'after'])('fails if its source failed %s it was piped', async (when) => {
    const { source, body } = await large()
    const sink = new TestSink()
    const error = bodyError('TIDEGATE_BODY_TOO_SLOW')
    if (when === 'after') body.pipe(sink)
    source.sink?.fail(error)
    if (when === 'before') body.pipe(sink)
    expect(sink.outcome).toBe(error)
  })

  it('cancels its source, and does not read on', async () => {
    const { source, body } = await large()
    body.cancel()
    body.resume()
    expect(source).toMatchObject({ isCancelled: true, isPaused: true })
  })
})

describe('a total of several bodies', () => {
  it('ends buffering early, and counts only bytes that are being buffered', async () => {
    const total = { bytes: 0, bytesMax: 10 }
    const [one, other, third] = [new TestBody(), new TestBody(), new TestBody()]
    const first = bufferBody(one, BYTES_MAX, total)
    const second = bufferBody(other, BYTES_MAX, total)
    one.arrive('01234')
    other.arrive('01234')
    expect(total.bytes).toBe(10)
    other.arrive('5')
    expect(Buffer.isBuffer(await second)).toBe(false)
    expect(total.bytes).toBe(5)
    one.end()
    expect(String(await first)).toBe('01234')
    expect(total.bytes).toBe(0)
    const failing = bufferBody(third, BYTES_MAX, total)
    third.arrive('0')
    third.sink?.fail(bodyError('TIDEGATE_BODY_ABORTED'))
    await expect(failing).rejects.toThrow()
    expect(total.bytes).toBe(0)
  })
})

function piped() {
  const source = new TestBody()
  const [one, other] = teeBody(source)
  const [first, second] = [new TestSink(), new TestSink()]
  one.pipe(first)
  expect(source.sink).toBeUndefined()
  other.pipe(second)
  return { source, one, other, first, second }
}

describe('a body with two sinks', () => {
  it('gives both all bytes and trailers', () => {
    const { source, first, second } = piped()
    source.arrive('ab')
    source.arrive('cd')
    source.end('e', ['t', 'v'])
    const all = { text: 'abcde', outcome: 'complete', trailers: ['t', 'v'] }
    expect(first).toMatchObject(all)
    expect(second).toMatchObject(all)
  })

  it('flows at the pace of the slower sink', () => {
    const { source, one, other, first, second } = piped()
    first.isFull = true
    second.isFull = true
    source.arrive('ab')
    expect([first.text, second.text, source.isPaused]).toEqual(['ab', 'ab', true])
    one.resume()
    expect(source.isPaused).toBe(true)
    other.resume()
    expect(source.isPaused).toBe(false)
  })

  it('goes on for one sink if the other is cancelled', () => {
    const { source, one, first, second } = piped()
    first.isFull = true
    source.arrive('a')
    one.cancel()
    expect(source).toMatchObject({ isPaused: false, isCancelled: false })
    source.arrive('b')
    source.end()
    expect([first.text, second.text]).toEqual(['a', 'ab'])
    expect([first.outcome, second.outcome]).toEqual([undefined, 'complete'])
  })

  it('goes on if a sink cancels while it is written to', () => {
    const source = new TestBody()
    const [one, other] = teeBody(source)
    const [first, second] = [new TestSink(), new TestSink()]
    first.write = () => {
      one.cancel()
      return false
    }
    one.pipe(first)
    other.pipe(second)
    source.arrive('a')
    expect(source.isPaused).toBe(false)
  })

  it('is cancelled if both are', () => {
    const { source, one, other } = piped()
    one.cancel()
    expect(source.isCancelled).toBe(false)
    other.cancel()
    expect(source.isCancelled).toBe(true)
  })

  it('fails for both', () => {
    const { source, first, second } = piped()
    const error = bodyError('TIDEGATE_BODY_ABORTED')
    source.sink?.fail(error)
    expect([first.outcome, second.outcome]).toEqual([error, error])
  })
})

describe('a body that is complete', () => {
  it('is whole for both', () => {
    const source = new TestBody()
    source.bytes = Buffer.from('all')
    const [one, other] = teeBody(source)
    expect(one.whole(3)).toBe(source.bytes)
    expect(other.whole(2)).toBeUndefined()
    const sink = new TestSink()
    other.pipe(sink)
    expect(sink).toMatchObject({ text: 'all', outcome: 'complete' })
  })
})
