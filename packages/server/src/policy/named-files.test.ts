import { afterAll, expect, test } from 'vitest'
import { makeRegionCertificates } from '../../../../test/support/regions/region-certificates.ts'
import { makeFolder, removeFolder } from '../../../../test/support/servers/server-process.ts'
import { namedFileProblems } from './named-files.ts'
import { parsePolicy } from './read-policy.ts'

const folder = makeFolder()
const certificates = makeRegionCertificates(folder, ['eu', 'us'])

afterAll(() => removeFolder(folder))

/** A node of eu with the certificate of a region. */
function problemsWith(region: string): readonly string[] {
  const list = { eu: { endpoint: 'eu:7443' }, us: { endpoint: 'us:7443' } }
  const link = { listen: { port: 7_443 }, ...certificates.get(region) }
  const store = { mode: 'standalone', addresses: ['localhost:6379'] }
  const parsed = parsePolicy({ region: 'eu', regions: { list, link }, store })
  if (!parsed.ok) throw new Error(parsed.problems.map(({ message }) => message).join('\n'))
  return namedFileProblems(parsed.document, folder)
}

test('the certificate of a region has its name', () => {
  expect(problemsWith('eu')).toEqual([])
  expect(problemsWith('us')).toEqual([
    expect.stringMatching(/^regions\.link\.cert .*us\.crt: the certificate has no DNS name eu, /),
  ])
})
