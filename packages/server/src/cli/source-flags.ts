/** `--config-source` and the flags of etcd, which every command that follows a policy has. */

import { readFileSync } from 'node:fs'
import { SettingError } from '../app/environment.ts'
import {
  configSources,
  type EtcdAccess,
  etcdFieldProblem,
  type SourceChoice,
} from '../app/etcd-access.ts'
import { UsageError } from './terminal.ts'

export const sourceOptions = {
  'config-source': { type: 'string' },
  'etcd-endpoints': { type: 'string' },
  'etcd-prefix': { type: 'string' },
  'etcd-ca': { type: 'string' },
  'etcd-cert': { type: 'string' },
  'etcd-key': { type: 'string' },
  'etcd-user': { type: 'string' },
  'etcd-password-file': { type: 'string' },
} as const

export const sourceHelp = `
  --config-source NAME   etcd: follow the policy that is published there. file: the file alone.
                         Default: etcd if the section control of the file names one
  --etcd-endpoints URLS  Members of etcd, separated by commas. This and the following replace
                         control.etcd of the file, or TIDEGATE_ETCD_ENDPOINTS and so on
  --etcd-prefix PREFIX   Before every key, such as /tidegate/production/
  --etcd-ca FILE         Trusted CA certificates
  --etcd-cert FILE       A client certificate without a Common Name
  --etcd-key FILE        The key of the client certificate
  --etcd-user NAME       The user of etcd
  --etcd-password-file FILE
                         The password of the user
`

type Flag = keyof typeof sourceOptions
type Values = Readonly<Partial<Record<Flag, string | undefined>>>

/** Throws UsageError if a flag is not valid, or SettingError if the password cannot be read. */
export function sourceChoice(values: Values): SourceChoice {
  const name = values['config-source']
  const source = configSources.find((known) => known === name)
  if (name !== undefined && source === undefined) {
    throw new UsageError(`--config-source ${name}: allowed is ${configSources.join(' or ')}`)
  }
  const flags = Object.keys(sourceOptions).filter((flag) => flag.startsWith('etcd-'))
  const given = flags.find((flag) => values[flag as Flag] !== undefined)
  if (given !== undefined && source !== 'etcd') {
    throw new UsageError(`--${given} needs --config-source etcd`)
  }
  return { source, etcd: etcdOf(values) }
}

function etcdOf(values: Values): Partial<EtcdAccess> {
  const urls = values['etcd-endpoints']?.split(',').map((url) => url.trim())
  const tls = fieldsOf({
    ca: values['etcd-ca'],
    cert: values['etcd-cert'],
    key: values['etcd-key'],
  })
  const file = values['etcd-password-file']
  return fieldsOf({
    endpoints: checked('endpoints', urls),
    prefix: checked('prefix', values['etcd-prefix']),
    tls: Object.keys(tls).length === 0 ? undefined : tls,
    user: checked('user', values['etcd-user']),
    password: file === undefined ? undefined : passwordOf(file),
  })
}

/** Fields without a value would replace those of the file. */
function fieldsOf<T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const set = Object.entries(fields).filter(([, value]) => value !== undefined)
  return Object.fromEntries(set) as { [K in keyof T]?: Exclude<T[K], undefined> }
}

/** The name of the field of `control.etcd` is the end of the flag. */
function checked<T>(flag: 'endpoints' | 'prefix' | 'user', value: T | undefined): T | undefined {
  const problem = value === undefined ? undefined : etcdFieldProblem(flag, value)
  if (problem === undefined) return value
  throw new UsageError(`--etcd-${flag}: allowed is ${problem}`)
}

function passwordOf(file: string): string {
  try {
    const text = readFileSync(file, 'utf8').trimEnd()
    if (text !== '') return text
  } catch {
    // Reported below.
  }
  throw new SettingError(`--etcd-password-file ${file}: the file is empty or cannot be read`)
}
