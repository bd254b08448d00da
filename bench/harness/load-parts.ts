/** Finds the parts: every file of the folder that exports one. */

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { inOrder } from './order.ts'
import type { Part } from './part.ts'

/** A part, or the error of loading it, such as a peer that is not installed. */
export type PartFile =
  | { readonly name: string; readonly part: Part }
  | { readonly name: string; readonly error: unknown }

export async function loadParts(folder: string): Promise<PartFile[]> {
  const names = readdirSync(folder)
    .filter((file) => file.endsWith('.ts'))
    // Read before the import, because an import runs the whole file.
    .filter((file) => /^export const part\b/m.test(readFileSync(join(folder, file), 'utf8')))
    .map((file) => file.replace(/\.ts$/, ''))
  return Promise.all(inOrder(names, (name) => name).map((name) => loadPart(folder, name)))
}

async function loadPart(folder: string, name: string): Promise<PartFile> {
  try {
    const { part } = (await import(pathToFileURL(join(folder, `${name}.ts`)).href)) as {
      part: Part
    }
    if (part.name !== name) throw new Error(`the part of ${name}.ts calls itself ${part.name}`)
    return { name, part }
  } catch (error) {
    return { name, error }
  }
}
