import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { makeCertificate } from '../../../../../test/support/servers/certificates.ts'
import { makeFolder, removeFolder } from '../../../../../test/support/servers/server-process.ts'
import { BOOTSTRAP, startAdminService } from '../../admin/admin-contract.ts'
import { runCli } from '../cli.ts'

async function setup() {
  const folder = makeFolder()
  onTestFinished(() => removeFolder(folder))
  const { certFile, keyFile } = makeCertificate(folder)
  const tls = { cert: certFile, key: keyFile, clientCa: certFile }
  const { service, url } = await startAdminService({
    admin: { token: { env: 'ADMIN_TOKEN' }, tls, certificates: { localhost: 'operate' } },
  })
  const admin = `https://localhost:${service.admin?.address.port}`
  const run = async (line: string, environment: Record<string, string> = {}) => {
    let text = ''
    const write = (part: string) => {
      text += part
    }
    const args = line.split(' ').filter((one) => one !== '')
    const code = await runCli(args, { environment, stdout: write, stderr: write })
    return { code, text }
  }
  const files = { ca: `--ca ${certFile}`, own: `--cert ${certFile} --key ${keyFile}` }
  return { folder, admin, http: url, run, files, certFile, keyFile }
}

test('a client certificate is enough, with the role of its name', async () => {
  const { admin, run, files, certFile, keyFile } = await setup()
  const all = `--admin ${admin} ${files.ca} ${files.own}`
  expect(await run(`switch show ${all}`)).toMatchObject({ code: 0 })
  const block = await run(`block user eve --for 1h --why x ${all}`)
  expect(block).toMatchObject({ code: 0 })
  expect((await run(`audit ${all}`)).text).toContain('localhost (operate) block.set')
  const denied = await run(`switch off --for 1h --why x ${all}`)
  expect(denied).toMatchObject({ code: 1, text: expect.stringContaining('403: ') })
  const environment = { TIDEGATE_ADMIN: admin, TIDEGATE_CA: certFile }
  const named = { ...environment, TIDEGATE_CERT: certFile, TIDEGATE_KEY: keyFile }
  expect(await run('switch show', named)).toMatchObject({ code: 0 })
  expect(await run('switch show', { ...environment, TIDEGATE_TOKEN: BOOTSTRAP })).toMatchObject({
    code: 0,
  })
})

test('problems are described', async () => {
  const { folder, admin, run, files, certFile, http } = await setup()
  const broken = join(folder, 'broken.pem')
  writeFileSync(broken, 'not a certificate')
  const spaced = join(folder, 'spaced')
  writeFileSync(spaced, 'a token with spaces')
  const lines: [string, number, RegExp][] = [
    [`--admin ${admin} ${files.own}`, 1, /its certificate is not trusted; name its CA with --ca/],
    [`--admin ${admin} --ca ${certFile} --cert ${certFile}`, 2, /one needs the other/],
    [`--admin ${admin} --ca ${folder}/none`, 1, /--ca .*none: cannot be read/],
    [`--admin ${admin} --ca ${broken} ${files.own}`, 1, /./],
    [`--admin ${admin} --cert ${broken} --key ${broken}`, 1, /not a valid certificate or key/],
    [`--admin ${http} --ca ${certFile}`, 2, /--ca: only for an admin listener with https/],
    [`--admin ${admin} --ca ${certFile}`, 1, /there is no token: .*--cert FILE/],
    [`--admin ${admin} --ca ${certFile} --token-file ${spaced}`, 1, /not a token, because/],
  ]
  for (const [line, code, message] of lines) {
    const found = await run(`switch show ${line}`)
    expect({ line, ...found }).toEqual({ line, code, text: expect.stringMatching(message) })
  }
})
