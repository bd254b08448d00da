/**
 * Gives one body to two sinks, such as a client and a cache. It flows at the pace of the slower
 * sink, so nothing is buffered, and starts when both are there. A branch that is cancelled counts
 * as one that takes everything.
 */

import type { HeaderList } from '../header-list.ts'
import type { Body, BodySink } from './body.ts'

export function teeBody(body: Body): readonly [Body, Body] {
  return new Tee(body).branches
}

class Tee implements BodySink {
  readonly #source: Body
  readonly branches: readonly [Branch, Branch]
  #isPiped = false
  #isOver = false

  constructor(source: Body) {
    this.#source = source
    const onChange = () => this.#onChange()
    this.branches = [new Branch(source, onChange), new Branch(source, onChange)]
  }

  write(chunk: Buffer): boolean {
    // Both must get it, also if the first is full.
    const takesMore = this.branches.map((branch) => branch.write(chunk))
    return takesMore.every(Boolean)
  }

  end(chunk: Buffer | undefined, trailers: HeaderList | undefined): void {
    this.#isOver = true
    for (const branch of this.branches) branch.end(chunk, trailers)
  }

  fail(error: Error): void {
    this.#isOver = true
    for (const branch of this.branches) branch.fail(error)
  }

  #onChange(): void {
    const [one, other] = this.branches
    if (this.#isOver) return
    if (one.state === 'done' && other.state === 'done') {
      this.#isOver = true
      this.#source.cancel()
    } else if (one.takesMore && other.takesMore) {
      if (this.#isPiped) this.#source.resume()
      else {
        this.#isPiped = true
        this.#source.pipe(this)
      }
    }
  }
}

/** `waiting`: it has no sink yet. `full`: its sink takes nothing now. `done`: it wants no more. */
type State = 'waiting' | 'flowing' | 'full' | 'done'

class Branch implements Body, BodySink {
  readonly #source: Body
  readonly #onChange: () => void
  #state: State = 'waiting'
  #sink: BodySink | undefined

  constructor(source: Body, onChange: () => void) {
    this.#source = source
    this.#onChange = onChange
  }

  get state(): State {
    return this.#state
  }

  get takesMore(): boolean {
    return this.#state === 'flowing' || this.#state === 'done'
  }

  whole(bytesMax: number): Buffer | undefined {
    const bytes = this.#state === 'waiting' ? this.#source.whole(bytesMax) : undefined
    if (bytes !== undefined) this.#change('done')
    return bytes
  }

  pipe(sink: BodySink): void {
    this.#sink = sink
    this.#change('flowing')
  }

  resume(): void {
    if (this.#state === 'full') this.#change('flowing')
  }

  cancel(): void {
    if (this.#state !== 'done') this.#change('done')
  }

  write(chunk: Buffer): boolean {
    const isFull = this.#state !== 'done' && this.#sink?.write(chunk) === false
    // A sink may cancel its branch while it is written to.
    if (!isFull || this.state === 'done') return true
    this.#state = 'full'
    return false
  }

  end(chunk: Buffer | undefined, trailers: HeaderList | undefined): void {
    if (this.#state === 'done') return
    this.#state = 'done'
    this.#sink?.end(chunk, trailers)
  }

  fail(error: Error): void {
    if (this.#state === 'done') return
    this.#state = 'done'
    this.#sink?.fail(error)
  }

  #change(state: State): void {
    this.#state = state
    this.#onChange()
  }
}
