/** The measured tables of docs/decisions/regions.md are those of the protocols as they are. */

import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { PAGE, pageWithFigures } from '../../tools/regions/figures.ts'

test('docs/decisions/regions.md has the figures of tools/regions/figures.ts', async () => {
  const text = readFileSync(PAGE, 'utf8')
  expect(text.match(/^\| (0\.5 s \/ 60 s|a lone region|10m)/gm)).toHaveLength(4)
  expect((await pageWithFigures(text)) === text, 'run: node tools/regions/figures.ts').toBe(true)
})
