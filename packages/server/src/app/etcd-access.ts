/**
 * The etcd that a process follows: that of its policy file or of the environment, whose fields the
 * command line can replace.
 */

import { resolve } from 'node:path'
import { type Secret, secretReader } from '../config/secrets.ts'
import { readTlsFiles, type TlsFiles } from '../config/tls-files.ts'
import { EtcdKeyValue } from '../control/etcd/etcd-key-value.ts'
import type { KeyValueStore } from '../control/key-value.ts'
import { type ControlSection, etcdSection } from '../policy/schema/control/control-section.ts'
import { controlSettings, type RlsControlSettings } from '../rls/environment/etcd-settings.ts'
import { Variables } from '../rls/environment/read-variable.ts'
import { type Environment, SettingError } from './environment.ts'

export const configSources = ['file', 'etcd'] as const

/** What the command line says about the source of a configuration. */
export interface SourceChoice {
  /** `file`: no etcd is followed, also if the file names one. Default: as the file says. */
  readonly source?: (typeof configSources)[number] | undefined
  /** Fields that replace those of the file or of the environment. */
  readonly etcd?: Partial<EtcdAccess>
}

/** Paths are absolute, or relative to the working directory. */
export interface EtcdAccess {
  readonly endpoints: readonly string[]
  readonly prefix: string
  readonly tls?: TlsFiles | undefined
  readonly user?: string | undefined
  readonly password?: Secret | string | undefined
}

/** The place of a node, and its etcd. */
export interface ControlAccess extends Pick<RlsControlSettings, 'node' | 'region' | 'stateFile'> {
  readonly etcd: EtcdAccess
}

export interface LocalFile {
  readonly section: ControlSection | undefined
  readonly region: string | undefined
  /** Relative names in the section begin here. */
  readonly folder: string
}

const PREFIX = '/tidegate/default/'

/**
 * Undefined if no etcd is followed. Throws SettingError if the command line asks for one and
 * nothing has its endpoints.
 */
export function controlAccess(
  { section, region, folder }: LocalFile,
  environment: Environment,
  { source, etcd: flags }: SourceChoice = {},
): ControlAccess | undefined {
  if (source === 'file' || (source === undefined && section?.etcd === undefined)) return undefined
  const variables = section?.etcd === undefined ? fromEnvironment(environment) : undefined
  const file = section?.etcd && sectionAccess(section.etcd, folder)
  const { stateFile } = section ?? {}
  return {
    etcd: complete(variables ?? file, flags),
    node: section?.node ?? variables?.node,
    region: region ?? variables?.region,
    stateFile: stateFile === undefined ? variables?.stateFile : resolve(folder, stateFile),
  }
}

/** The control settings of the rate limit service with Envoy's files, as the command line says. */
export function rlsControl(
  control: RlsControlSettings | undefined,
  { source, etcd: flags }: SourceChoice,
): RlsControlSettings | undefined {
  if (source === undefined) return control
  if (source === 'file') return undefined
  const place = { node: undefined, region: undefined, stateFile: undefined }
  const { tls, user, password, ...rest } = complete(control, flags)
  return { ...place, ...control, ...rest, tls, user, password }
}

/** Returns what is allowed, if the value of a field of `control.etcd` is not. */
export function etcdFieldProblem(
  field: 'endpoints' | 'prefix' | 'user',
  value: unknown,
): string | undefined {
  const { success, error } = etcdSection.shape[field].safeParse(value)
  return success ? undefined : (error.issues[0]?.message ?? 'another value')
}

/** Throws SettingError if a file or the password cannot be read. */
export function openEtcd(access: EtcdAccess, environment: Environment): KeyValueStore {
  const { endpoints, prefix, tls, user, password } = access
  try {
    return new EtcdKeyValue({
      endpoints,
      prefix,
      ...(tls && { tls: readTlsFiles(tls) }),
      user,
      password:
        typeof password === 'object'
          ? secretReader(environment, '')(password, 'the password of etcd')
          : password,
    })
  } catch (error) {
    throw new SettingError(`etcd: ${error instanceof Error ? error.message : error}`)
  }
}

function complete(
  base: EtcdAccess | undefined,
  flags: Partial<EtcdAccess> | undefined,
): EtcdAccess {
  const endpoints = flags?.endpoints ?? base?.endpoints
  if (endpoints === undefined) {
    const places = '--etcd-endpoints, control.etcd of the policy or TIDEGATE_ETCD_ENDPOINTS'
    throw new SettingError(`--config-source etcd: no endpoints; name them by ${places}`)
  }
  const tls = flags?.tls || base?.tls ? { ...base?.tls, ...flags?.tls } : undefined
  return { prefix: PREFIX, ...base, ...flags, endpoints, tls }
}

function sectionAccess(
  { tls, password, ...etcd }: NonNullable<ControlSection['etcd']>,
  folder: string,
): EtcdAccess {
  const absolute = (file: string | undefined) => file && resolve(folder, file)
  const files = tls && { ca: absolute(tls.ca), cert: absolute(tls.cert), key: absolute(tls.key) }
  const isFile = password !== undefined && 'file' in password
  return {
    ...etcd,
    tls: files,
    password: isFile ? { file: resolve(folder, password.file) } : password,
  }
}

function fromEnvironment(environment: Environment): RlsControlSettings | undefined {
  try {
    return controlSettings(new Variables(environment))
  } catch (error) {
    throw new SettingError(error instanceof Error ? error.message : String(error))
  }
}
