import { expect, test } from 'vitest'
import { readText } from '../house/source-file.ts'
import { faults } from './table.ts'

test('docs/reliability.md has a row for every fault', () => {
  const page = readText('docs/reliability.md')
  expect(faults.filter((fault) => !page.includes(`\n| ${fault} | `))).toEqual([])
})
