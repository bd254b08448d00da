/** The worker of config-files.ts: for each message with files, posts their fields or a problem. */

import { parentPort } from 'node:worker_threads'
import type { TextFile } from '../../config/directory.ts'
import { RlsConfigError } from './config-error.ts'
import { type Decoded, decodeHere } from './config-files.ts'

parentPort?.on('message', (files: readonly TextFile[]) => parentPort?.postMessage(decode(files)))

function decode(files: readonly TextFile[]): Decoded {
  try {
    return { fields: decodeHere(files) }
  } catch (error) {
    if (error instanceof RlsConfigError) return { file: error.file, text: error.text }
    throw error
  }
}
