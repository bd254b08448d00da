/**
 * The progress of running benchmarks: on a terminal one line that is updated, in a log one line per
 * part.
 */

export interface Progress {
  /** Starts the line of the next part. */
  next(name: string): void
  /** Shows the current step of the part. */
  show(text: string): void
  /** Prints results, which stay on the screen. */
  print(text: string): void
  end(): void
}

/** Often enough to look alive, too rarely to affect the measurement. */
const REFRESH_MS = 1_000

const CLEAR_LINE = '\r\u001b[2K'

export function startProgress(
  parts: number,
  stream: NodeJS.WriteStream = process.stderr,
): Progress {
  const startedMs = performance.now()
  const state = { at: 0, name: '', text: '' }
  const write = () => {
    if (!stream.isTTY || state.at === 0) return
    const elapsed = minutes(performance.now() - startedMs)
    const line = `[${state.at} of ${parts}, ${elapsed}] ${state.name}: ${state.text}`
    stream.write(CLEAR_LINE + line.slice(0, (stream.columns ?? 80) - 1))
  }
  const clear = () => {
    if (stream.isTTY) stream.write(CLEAR_LINE)
  }
  const timer = setInterval(write, REFRESH_MS)
  timer.unref()
  return {
    next(name) {
      state.at += 1
      Object.assign(state, { name, text: 'starts' })
      if (!stream.isTTY) stream.write(`== bench ${name} (${state.at} of ${parts})\n`)
      write()
    },
    show(text) {
      state.text = text
      write()
    },
    print(text) {
      clear()
      console.log(text)
    },
    end() {
      clearInterval(timer)
      clear()
    },
  }
}

function minutes(ms: number): string {
  const seconds = Math.floor(ms / 1_000)
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`
}
