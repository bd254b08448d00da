/**
 * Parses files in a thread of its own, because that takes a millisecond for every four descriptors,
 * and calls have to be answered meanwhile.
 */

import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { RlsConfigError } from './config-error.ts'
import { decodeFile, type FileFields } from './decode-file.ts'
import type { ConfigFile } from './rls-config.ts'

type Outcome =
  | { readonly fields: readonly FileFields[] }
  | { readonly file: string; readonly text: string }

/** A file of the largest size takes a few seconds. */
const DECODE_MS_MAX = 30_000

/** In the order of the files. Rejects for the first thing that is wrong. */
export async function decodeInThread(files: readonly ConfigFile[]): Promise<readonly FileFields[]> {
  if (files.length === 0) return []
  const worker = new Worker(new URL(import.meta.url), { workerData: files })
  worker.unref()
  try {
    const outcome = await outcomeOf(worker)
    if ('fields' in outcome) return outcome.fields
    throw new RlsConfigError(outcome.file, outcome.text)
  } finally {
    void worker.terminate()
  }
}

function outcomeOf(worker: Worker): Promise<Outcome> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      reject(new Error(`the configuration was not parsed in ${DECODE_MS_MAX} ms`))
    }, DECODE_MS_MAX)
    timer.unref()
    worker.once('message', resolve)
    worker.once('error', reject)
    worker.once('exit', () => {
      clearTimeout(timer)
      reject(new Error('the thread that parses the configuration has ended'))
    })
  })
}

function decodeAll(files: readonly ConfigFile[]): Outcome {
  try {
    return { fields: files.map(({ name, text }) => decodeFile(name, text)) }
  } catch (error) {
    if (error instanceof RlsConfigError) return { file: error.file, text: error.text }
    throw error
  }
}

if (!isMainThread && Array.isArray(workerData)) parentPort?.postMessage(decodeAll(workerData))
