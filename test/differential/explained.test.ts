import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { repositoryRoot } from '../house/source-file.ts'
import { explanations } from './explained-http1.ts'
import { http2Explanations } from './explained-http2.ts'

test('docs/gateway-security.md has every explanation of a difference', () => {
  const text = readFileSync(join(repositoryRoot, 'docs/gateway-security.md'), 'utf8')
  const rows = [
    ...explanations.map((one) => ['HTTP/1', one] as const),
    ...http2Explanations.map((one) => ['HTTP/2', one] as const),
  ].map(([protocol, { name, server, because }]) => {
    const other = server === 'both' ? 'node, nginx' : server
    return `| ${protocol} | ${other} | ${name} | ${because} |`
  })
  const missing = rows.filter((row) => !text.includes(row))
  expect(missing).toEqual([])
})
