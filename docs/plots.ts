/**
 * The pictures of the documents, made by the real algorithms. `node docs/plots.ts` writes them to
 * docs/images; test/docs.test.ts compares what is committed with what this makes.
 */

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { overview, type Plot, picture } from './plot-drawing.ts'
import { run, subjects } from './plot-traffic.ts'

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
    writeFileSync(join(import.meta.dirname, 'images', file), text)
    console.log(`docs/images/${file}`)
  }
}
