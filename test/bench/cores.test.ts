import { describe, expect, test } from 'vitest'
import { coresOf } from '../../bench/harness/cores.ts'

describe('a list of cores', () => {
  test.each([
    ['', []],
    ['0', [0]],
    ['0,1', [0, 1]],
    ['0-2,5', [0, 1, 2, 5]],
  ])('such as %j is read', (list, cores) => expect(coresOf(list)).toEqual(cores))
})
