/**
 * From the command line to findings: which parts run, in what order, and where the findings go. The
 * other parts run even if one fails.
 */

import { join } from 'node:path'
import { publish, save } from '../documents/publish.ts'
import { loadParts, type PartFile } from './load-parts.ts'
import { type Options, optionsFrom, usage } from './options.ts'
import type { Finding } from './part.ts'
import { type Progress, startProgress } from './progress.ts'
import { runPart } from './run-part.ts'
import { screenText } from './screen.ts'

export interface Places {
  /** The folder of the parts. */
  readonly parts: string
  /** The root of the repository, with `docs`, `README.md` and `.cache`. */
  readonly root: string
}

const EXIT_FAILED = 1
const EXIT_WRONG_USE = 2

/** Returns the exit code. */
export async function main(args: readonly string[], places: Places): Promise<number> {
  const options = optionsFrom(args)
  if ('wrong' in options) return refuse(`${options.wrong}\n\n${usage}`)
  if (options.isHelp) {
    console.log(usage)
    return 0
  }
  const files = await loadParts(places.parts)
  if (options.isList) {
    console.log(listOf(files))
    return 0
  }
  const unknown = options.names.filter((name) => !files.some((file) => file.name === name))
  if (unknown.length > 0) {
    return refuse(`there is no benchmark ${unknown.join(', ')}. There are:\n\n${listOf(files)}`)
  }
  const isChosen = ({ name }: PartFile) =>
    options.names.length === 0 || options.names.includes(name)
  return runAll(files.filter(isChosen), options, places)
}

async function runAll(
  files: readonly PartFile[],
  options: Options,
  { root }: Places,
): Promise<number> {
  const progress = startProgress(files.length)
  const findings: Finding[] = []
  const failed: string[] = []
  let where = ''
  for (const file of files) {
    progress.next(file.name)
    try {
      const finding = await found(file, options, progress)
      findings.push(finding)
      progress.print(screenText(finding))
      // Saved after each part, so that a later failure loses nothing.
      where = options.isPublish
        ? publish(root, findings)
        : save(join(root, '.cache/bench'), findings)
    } catch (error) {
      failed.push(file.name)
      progress.print(`${file.name} failed: ${error instanceof Error ? error.stack : error}\n`)
    }
  }
  progress.end()
  if (failed.length > 0) console.log(`Failed: ${failed.join(', ')}`)
  if (where !== '') console.log(where)
  return failed.length > 0 ? EXIT_FAILED : 0
}

function found(file: PartFile, options: Options, progress: Progress): Promise<Finding> {
  if ('error' in file) throw file.error
  return runPart(file.part, options, progress)
}

function refuse(message: string): number {
  console.error(`bench: ${message}`)
  return EXIT_WRONG_USE
}

function listOf(files: readonly PartFile[]): string {
  const width = Math.max(...files.map(({ name }) => name.length))
  const titleOf = (file: PartFile) => ('part' in file ? file.part.title : `${file.error}`)
  return files.map((file) => `  ${file.name.padEnd(width)}  ${titleOf(file)}`).join('\n')
}
