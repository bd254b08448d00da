/** The time of a process as a dependency, so that regions can run in virtual time. */
export interface ProcessTime {
  /** Milliseconds of a clock that never jumps. */
  now(): number
  /** Runs `run` again and again, without keeping the process alive; the result stops it. */
  every(intervalMs: number, run: () => void): () => void
}

export const processTime: ProcessTime = {
  now: () => performance.now(),
  every(intervalMs, run) {
    const timer = setInterval(run, intervalMs).unref()
    return () => clearInterval(timer)
  },
}
