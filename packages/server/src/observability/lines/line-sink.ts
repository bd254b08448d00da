/**
 * Writes lines to a file or to the standard output, in batches and beside the event loop. It never
 * blocks, throws or grows without bound: lines that find the buffer full, and those of a batch that
 * cannot be written, are dropped and counted.
 *
 * A batch consists of whole lines and goes to a file that is opened for appending, so that several
 * processes can share it, and a tool may truncate it in place.
 */

import { closeSync, constants, fstatSync, openSync, write, writeSync } from 'node:fs'

/** The standard output, or the path of a file. */
export type SinkTarget = 1 | string

export interface LineSinkOptions {
  /** Called if a batch could not be written, with the code of the error. */
  readonly onFailed?: ((reason: string) => void) | undefined
  /** True if other processes write to the same pipe. */
  readonly isShared?: boolean
  /** Default: 4 MiB. */
  readonly bytesMax?: number
}

/** About 15,000 lines: half a second of a busy gateway. */
const BYTES_MAX = 4 * 1_024 ** 2

/** Lines of this time are one write. A reader of the log does not notice it. */
const BATCH_MS = 20

/** A batch of this size does not wait. */
const BATCH_BYTES = 64 * 1_024

/** What Linux writes to a pipe at once; of larger writes, those of two processes may mix. */
const PIPE_BYTES = 4_096

/** A pipe whose reader is behind is tried again after this time. */
const RETRY_MS = 20

/** At the end, a reader that is behind gets this time. */
const CLOSE_MS_MAX = 1_000

/** Readable by its group, as other servers create logs. */
const FILE_MODE = 0o640

interface Batch {
  readonly fd: number
  readonly bytes: Buffer
  /** How many of them are written. */
  at: number
  /** The number of its lines. */
  readonly count: number
}

export class LineSink {
  readonly #target: SinkTarget
  readonly #options: LineSinkOptions
  readonly #bytesMax: number
  readonly #batchBytesMax: number
  #fd: number
  #lines: string[] = []
  #bytes = 0
  /** The batch that is being written. */
  #batch: Batch | undefined
  #timer: NodeJS.Timeout | undefined
  /** The last batch ended in the middle of a line. */
  #isBroken = false
  #isClosed = false
  #onIdle: (() => void) | undefined
  readonly #dropped = { full: 0, failed: 0 }

  /** Throws if the file cannot be opened. */
  constructor(target: SinkTarget, options: LineSinkOptions = {}) {
    this.#target = target
    this.#options = options
    this.#bytesMax = options.bytesMax ?? BYTES_MAX
    this.#fd = target === 1 ? target : openFile(target)
    const isPipe = target === 1 && isPipeOrSocket(target)
    // Opening the stream makes the pipe non-blocking: a full one must not hold a thread.
    if (isPipe) process.stdout.on('error', () => undefined)
    this.#batchBytesMax =
      isPipe && options.isShared === true ? PIPE_BYTES : Number.POSITIVE_INFINITY
  }

  /** Lines that were lost: the buffer was full, or the write failed. */
  get dropped(): { readonly full: number; readonly failed: number } {
    return this.#dropped
  }

  /** The path of the file, if it is one. */
  get path(): string | undefined {
    return this.#target === 1 ? undefined : this.#target
  }

  /** Takes one line of ASCII with its newline. */
  write(line: string): void {
    const waiting = this.#bytes + (this.#batch?.bytes.length ?? 0)
    if (this.#isClosed || waiting + line.length > this.#bytesMax) {
      this.#dropped.full += 1
      return
    }
    this.#lines.push(line)
    this.#bytes += line.length
    if (this.#batch !== undefined) return
    if (this.#bytes >= BATCH_BYTES) this.#flush()
    else this.#timer ??= setTimeout(this.#flush, BATCH_MS)
  }

  /** Opens the file by its name again, after a tool has renamed it. Throws if that fails. */
  reopen(): void {
    if (this.#target === 1) return
    const fd = openFile(this.#target)
    // A batch under way ends in the file in which it began.
    if (this.#batch?.fd !== this.#fd) closeSync(this.#fd)
    this.#fd = fd
  }

  /** Writes the lines that wait, and closes the file. Resolves in any case. */
  async close(): Promise<void> {
    if (this.#isClosed) return
    const idle = new Promise<void>((resolve) => {
      this.#onIdle = resolve
    })
    if (this.#batch === undefined) this.#flush()
    const timer = setTimeout(() => this.#onIdle?.(), CLOSE_MS_MAX)
    if (this.#batch !== undefined) await idle
    clearTimeout(timer)
    this.#isClosed = true
    if (this.#batch === undefined && this.#target !== 1) closeSync(this.#fd)
  }

  /** For the end of the process: writes as much as can be written without waiting. */
  flushSync(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    // Bytes behind a batch under way could be written in the middle of its lines.
    if (this.#batch !== undefined || this.#bytes === 0) return
    try {
      writeSync(this.#fd, this.#lines.join(''))
    } catch {
      this.#dropped.failed += this.#lines.length
    }
  }

  readonly #flush = (): void => {
    clearTimeout(this.#timer)
    this.#timer = undefined
    if (this.#batch !== undefined) return
    if (this.#lines.length === 0) {
      this.#onIdle?.()
      return
    }
    const count = this.#takeCount()
    const text = this.#lines.splice(0, count).join('')
    this.#bytes -= text.length
    const bytes = Buffer.from(this.#isBroken ? `\n${text}` : text, 'latin1')
    this.#batch = { fd: this.#fd, bytes, at: 0, count }
    this.#writeRest()
  }

  /** The number of lines of the next batch, at least one. */
  #takeCount(): number {
    if (this.#batchBytesMax === Number.POSITIVE_INFINITY) return this.#lines.length
    let bytes = 0
    let count = 0
    for (const line of this.#lines) {
      bytes += line.length
      if (count > 0 && bytes > this.#batchBytesMax) return count
      count += 1
    }
    return count
  }

  readonly #writeRest = (): void => {
    const batch = this.#batch
    if (batch === undefined) return
    write(batch.fd, batch.bytes, batch.at, (error, written) => {
      batch.at += written ?? 0
      if (error === null) {
        if (batch.at < batch.bytes.length) this.#writeRest()
        else this.#finish(false)
      } else if (error.code === 'EAGAIN') setTimeout(this.#writeRest, RETRY_MS).unref()
      else this.#fail(error.code ?? error.message)
    })
  }

  #fail(reason: string): void {
    const { bytes, at, count } = this.#batch as Batch
    const written = bytes.subarray(0, at).toString('latin1')
    const complete = written.split('\n').length - 1 - (this.#isBroken && at > 0 ? 1 : 0)
    this.#dropped.failed += count - complete
    const isInLine = at === 0 ? this.#isBroken : !written.endsWith('\n')
    this.#finish(isInLine)
    this.#options.onFailed?.(reason)
  }

  #finish(isBroken: boolean): void {
    const { fd } = this.#batch as Batch
    // A new file begins with a whole line.
    this.#isBroken = isBroken && fd === this.#fd
    if (fd !== this.#fd) closeSync(fd)
    this.#batch = undefined
    if (this.#lines.length === 0) this.#onIdle?.()
    else if (this.#bytes >= BATCH_BYTES || this.#onIdle !== undefined) this.#flush()
    else this.#timer ??= setTimeout(this.#flush, BATCH_MS)
  }
}

/** A named pipe without a reader is an error, and does not block. */
function openFile(path: string): number {
  const { O_APPEND, O_CREAT, O_WRONLY, O_NOCTTY, O_NONBLOCK } = constants
  return openSync(path, O_APPEND | O_CREAT | O_WRONLY | O_NOCTTY | O_NONBLOCK, FILE_MODE)
}

function isPipeOrSocket(fd: number): boolean {
  try {
    const found = fstatSync(fd)
    return found.isFIFO() || found.isSocket()
  } catch {
    return false
  }
}
