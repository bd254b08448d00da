import { expect, test } from 'vitest'
import { isThere } from '../house/source-file.ts'
import { longFiles } from './long-first.ts'

test('every file that starts first exists', () => {
  expect(longFiles.filter((path) => !isThere(path))).toEqual([])
})
