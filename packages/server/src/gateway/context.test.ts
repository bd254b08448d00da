import { describe, expect, it } from 'vitest'
import { createContextKey, RequestContext } from './context.ts'

const count = createContextKey(0)
const name = createContextKey<string | undefined>('nobody')

describe('the context of a request', () => {
  it('has the initial value of a key until another is set', () => {
    const context = new RequestContext()
    expect(context.get(count)).toBe(0)
    expect(context.get(name)).toBe('nobody')
    context.set(count, 3)
    expect(context.get(count)).toBe(3)
    expect(context.get(name)).toBe('nobody')
  })

  it('keeps undefined if it is set', () => {
    const context = new RequestContext()
    context.set(name, undefined)
    expect(context.get(name)).toBeUndefined()
  })

  it('shares nothing with other requests', () => {
    const [one, other] = [new RequestContext(), new RequestContext()]
    one.set(count, 1)
    expect(other.get(count)).toBe(0)
    expect(new RequestContext().get(count)).toBe(0)
  })
})
