import { expect, test } from 'vitest'
import { controlAccess, rlsControl } from '../app/etcd-access.ts'
import { sourceChoice } from './source-flags.ts'

const etcd = { 'config-source': 'etcd' }
const local = { section: undefined, region: undefined, folder: '/etc/tidegate' }

test('flags replace fields of the file, whose names begin at its folder', () => {
  const choice = sourceChoice({ ...etcd, 'etcd-prefix': '/fleet/b/', 'etcd-ca': 'other.pem' })
  const section = {
    etcd: {
      endpoints: ['https://10.0.0.1:2379'],
      prefix: '/fleet/a/',
      tls: { ca: 'ca.pem', cert: 'client.pem', key: 'client.key' },
      user: 'tidegate',
      password: { file: 'password' },
    },
    node: 'web-1',
    stateFile: 'state',
    allow: { files: [], urls: [] },
  }
  expect(controlAccess({ ...local, section, region: 'eu' }, {}, choice)).toEqual({
    etcd: {
      endpoints: ['https://10.0.0.1:2379'],
      prefix: '/fleet/b/',
      tls: { ca: 'other.pem', cert: '/etc/tidegate/client.pem', key: '/etc/tidegate/client.key' },
      user: 'tidegate',
      password: { file: '/etc/tidegate/password' },
    },
    node: 'web-1',
    region: 'eu',
    stateFile: '/etc/tidegate/state',
  })
})

test('variables of the environment are the source if the file names none', () => {
  const environment = {
    TIDEGATE_ETCD_ENDPOINTS: 'http://10.0.0.1:2379,http://10.0.0.2:2379',
    TIDEGATE_ETCD_USER: 'ada',
    TIDEGATE_NODE: 'web-2',
  }
  expect(controlAccess(local, environment)).toBeUndefined()
  expect(controlAccess(local, environment, sourceChoice(etcd))).toMatchObject({
    etcd: { endpoints: ['http://10.0.0.1:2379', 'http://10.0.0.2:2379'], user: 'ada' },
    node: 'web-2',
  })
})

test('the rate limit service takes the flags in place of its variables', () => {
  const choice = sourceChoice({ ...etcd, 'etcd-endpoints': 'http://10.0.0.1:2379' })
  expect(rlsControl(undefined, choice)).toMatchObject({
    endpoints: ['http://10.0.0.1:2379'],
    prefix: '/tidegate/default/',
  })
  const control = rlsControl(undefined, choice)
  expect(rlsControl(control, sourceChoice({}))).toBe(control)
  expect(rlsControl(control, sourceChoice({ 'config-source': 'file' }))).toBeUndefined()
})

test('refuses flags that are not valid, with what is allowed', () => {
  const refused: readonly (readonly [Parameters<typeof sourceChoice>[0], string])[] = [
    [{ 'config-source': 'consul' }, '--config-source consul: allowed is file or etcd'],
    [{ 'etcd-user': 'ada' }, '--etcd-user needs --config-source etcd'],
    [{ 'config-source': 'file', 'etcd-ca': 'ca.pem' }, '--etcd-ca needs --config-source etcd'],
    [{ ...etcd, 'etcd-endpoints': '10.0.0.1' }, '--etcd-endpoints: allowed is a URL such as'],
    [{ ...etcd, 'etcd-prefix': 'x' }, '--etcd-prefix: allowed is a prefix such as'],
    [{ ...etcd, 'etcd-password-file': '/none' }, '--etcd-password-file /none: the file is empty'],
  ]
  for (const [flags, text] of refused) expect(() => sourceChoice(flags)).toThrow(text)
  expect(() => controlAccess(local, {}, sourceChoice(etcd))).toThrow('no endpoints; name them by')
  expect(() => rlsControl(undefined, sourceChoice(etcd))).toThrow('no endpoints; name them by')
})
