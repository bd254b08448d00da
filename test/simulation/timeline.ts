/** Virtual time: it jumps from event to event. Events of the same moment run in their order. */

interface TimelineEvent {
  readonly atMs: number
  readonly order: number
  readonly run: () => void
}

export class Timeline {
  nowMs = 0
  readonly #heap: TimelineEvent[] = []
  #order = 0

  at(atMs: number, run: () => void): void {
    const heap = this.#heap
    heap.push({ atMs: Math.max(atMs, this.nowMs), order: this.#order++, run })
    let child = heap.length - 1
    while (child > 0) {
      const parent = (child - 1) >> 1
      if (isBefore(heap[parent] as TimelineEvent, heap[child] as TimelineEvent)) break
      swap(heap, parent, child)
      child = parent
    }
  }

  after(delayMs: number, run: () => void): void {
    this.at(this.nowMs + delayMs, run)
  }

  /** Runs `run` every `periodMs` until `untilMs`. */
  every(periodMs: number, startMs: number, untilMs: number, run: () => void): void {
    const step = () => {
      run()
      if (this.nowMs + periodMs < untilMs) this.after(periodMs, step)
    }
    this.at(startMs, step)
  }

  /** Runs all events until `untilMs`. */
  runUntil(untilMs: number): void {
    while (this.runNext(untilMs));
  }

  /** Runs the next event; false if there is none until `untilMs`, which is the time then. */
  runNext(untilMs: number): boolean {
    const first = this.#heap[0]
    if (first === undefined || first.atMs > untilMs) {
      this.nowMs = untilMs
      return false
    }
    this.#pop()
    this.nowMs = first.atMs
    first.run()
    return true
  }

  #pop(): void {
    const heap = this.#heap
    const last = heap.pop() as TimelineEvent
    if (heap.length === 0) return
    heap[0] = last
    for (let parent = 0; ; ) {
      const left = 2 * parent + 1
      if (left >= heap.length) return
      const right = left + 1
      const isRightFirst =
        right < heap.length && isBefore(heap[right] as TimelineEvent, heap[left] as TimelineEvent)
      const child = isRightFirst ? right : left
      if (isBefore(heap[parent] as TimelineEvent, heap[child] as TimelineEvent)) return
      swap(heap, parent, child)
      parent = child
    }
  }
}

function isBefore(one: TimelineEvent, other: TimelineEvent): boolean {
  return one.atMs === other.atMs ? one.order < other.order : one.atMs < other.atMs
}

function swap(heap: TimelineEvent[], one: number, other: number): void {
  const event = heap[one] as TimelineEvent
  heap[one] = heap[other] as TimelineEvent
  heap[other] = event
}
