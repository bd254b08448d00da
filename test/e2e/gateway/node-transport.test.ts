/** A part of the tests again, on `gateway.transport: node`. The soak suite has the others. */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { repositoryRoot } from '../../house/source-file.ts'
import { useTransport } from './transport.ts'
import { differences } from './transport-differences.ts'

useTransport('node')
await import('./client-connections.test.ts')
await import('./forwarding.test.ts')
await import('../../differential/http1.test.ts')
await import('../../differential/protocol-cases.test.ts')
await import('../../security/smuggling.test.ts')
await import('../../security/malformed-answers.test.ts')

test('docs/gateway-security.md has every difference between the transports', () => {
  const text = readFileSync(join(repositoryRoot, 'docs/gateway-security.md'), 'utf8')
  const rows = Object.values(differences).map(({ side, what, why }) => {
    return `| ${side} | ${what} | ${why} |`
  })
  expect(rows.filter((row) => !text.includes(row))).toEqual([])
})
