/**
 * The pictures of docs/choosing-an-algorithm.md, drawn from decisions of the real algorithms.
 * `node tools/plots/plots.ts` writes them to docs/images; test/house/docs.test.ts compares the
 * committed files with the pictures of this module.
 */

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { overview, type Plot, picture } from './drawing.ts'
import { run, subjects } from './traffic.ts'

/** The text of every picture by its file name. */
export async function pictures(): Promise<ReadonlyMap<string, string>> {
  const plots: Plot[] = []
  for (const subject of subjects) plots.push({ subject, run: await run(subject) })
  return new Map([
    ...plots.map((plot) => [`${plot.subject.file}.svg`, picture(plot)] as const),
    ['overview.svg', overview(plots)],
  ])
}

if (process.argv[1] === import.meta.filename) {
  for (const [file, text] of await pictures()) {
    writeFileSync(join(import.meta.dirname, '../../docs/images', file), text)
    console.log(`docs/images/${file}`)
  }
}
