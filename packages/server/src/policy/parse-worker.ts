/** The worker of policy-parsers.ts: parses each text or file that it gets, and posts the result. */

import { parentPort } from 'node:worker_threads'
import { type KeyFile, readKeyFile } from './api-keys/key-file.ts'
import { buffersOf } from './api-keys/key-table.ts'
import { type ParseOrder, policyOf, type TextOrder } from './policy-parsers.ts'
import { readTierTable } from './read-tier-table.ts'

parentPort?.on('message', (order: ParseOrder) => {
  if ('path' in order) postKeys(order)
  else postText(order)
})

function postText({ text, file, tierNames, remote }: TextOrder): void {
  parentPort?.postMessage(
    tierNames === undefined
      ? policyOf({ text, file }, remote)
      : readTierTable(text, file, tierNames),
  )
}

/** Transfers the table: a copy would block the main thread. */
function postKeys(keyFile: KeyFile): void {
  const result = readKeyFile(keyFile)
  const isNew = result.ok && result.table !== 'known'
  parentPort?.postMessage(result, isNew ? buffersOf(result.table) : [])
}
