/**
 * The policy of a service: from a file, which is followed, with sections that are published in a
 * store if the file names one, or from environment variables. The kill switch of the environment
 * overrides `enabled` of the file.
 */

import { dirname, resolve } from 'node:path'
import { type FileReader, FileSource, type LoadedFiles } from '../config/file-source.ts'
import type { ConfigProblem, ConfigSource, ConfigVersion } from '../config/source.ts'
import { type PolicyFiles, policyLoader, policyReader } from '../policy/load-policy.ts'
import { namedFileProblems } from '../policy/named-files.ts'
import { warmUpParser } from '../policy/policy-parsers.ts'
import { PROBLEMS_MAX } from '../policy/problems/policy-problem.ts'
import { parsePolicy } from '../policy/read-policy.ts'
import { ControlPlane, nodeName } from './control-plane.ts'
import { type Environment, isEnabled, policyFromEnvironment, SettingError } from './environment.ts'
import { type ControlAccess, controlAccess, openEtcd, type SourceChoice } from './etcd-access.ts'

/** A policy as it goes live. */
export type ServicePolicy = Pick<ConfigVersion<unknown>, 'id' | 'loadedAtMs'> & {
  readonly value: Pick<PolicyFiles, 'document' | 'tierTable' | 'keyTable'>
}

export interface PolicyConfig {
  readonly policy: ServicePolicy
  /** The folder where relative file names in the policy begin. */
  readonly folder: string
  /** Reports later versions; undefined for a policy from the environment. */
  readonly source: ConfigSource<PolicyFiles> | undefined
  /** The store of published policies, if the file has one and it is followed. */
  readonly control?: PolicyControl | undefined
}

export interface PolicyControl {
  readonly plane: ControlPlane<PolicyFiles>
  /** Loads a document as if it were published. */
  load(text: string): Promise<LoadedFiles<PolicyFiles>>
}

/** Default: the file alone, also if it has a section `control`. */
export interface FollowOptions extends SourceChoice {
  /** The program that reports to the control plane, such as `tidegate 1.0.0`. */
  readonly program: string
  /** True for one of several processes that serve the same listeners. */
  readonly isWorker?: boolean
}

/**
 * To start the parser takes a third of a second of the processor, and seconds if all nodes of a
 * busy machine start at once. A node also waits that long for its first version.
 */
const PARSER_MS_MAX = 3_000

/** Throws SettingError with all problems if the policy is not valid or names unusable files. */
export async function readPolicyConfig(
  file: string | undefined,
  environment: Environment,
  follow?: FollowOptions,
): Promise<PolicyConfig> {
  if (file === undefined) {
    if (follow?.source !== 'etcd') return configFromEnvironment(environment)
    throw new SettingError('--config-source etcd needs --config FILE, which has the listeners')
  }
  const source = new FileSource(switchedReader(policyReader(file), isEnabled(environment)))
  const policy = await source.read()
  if (!policy.ok) throw refusedPolicy(policy.problems)
  const folder = dirname(resolve(file))
  const problems = namedFileProblems(policy.value.document, folder)
  if (problems.length > 0) throw new SettingError(problems.join('\n'))
  const config = { policy, folder, source }
  const { control: section, region } = policy.value.document
  const access = follow && controlAccess({ section, region, folder }, environment, follow)
  if (follow === undefined || access === undefined) return config
  source.close()
  return followControl(file, access, environment, follow)
}

/** Starts from the file that was read, which names the store of published policies. */
async function followControl(
  file: string,
  { etcd, node, region, stateFile }: ControlAccess,
  environment: Environment,
  { program, isWorker }: FollowOptions,
): Promise<PolicyConfig> {
  const folder = dirname(resolve(file))
  const parser = warmUpParser(PARSER_MS_MAX)
  const load = policyLoader(file)
  const enabled = isEnabled(environment)
  const plane = new ControlPlane<PolicyFiles>({
    store: openEtcd(etcd, environment),
    place: { node: nodeName({ node }), region },
    path: resolve(file),
    stateFile: stateFile === undefined ? undefined : resolve(stateFile),
    canLoad: parser,
    program,
    isWorker,
    async load(document, live) {
      const remote = document && { text: document.text, file: `version ${document.version}` }
      return switched(await load(remote, live), enabled)
    },
  })
  const { source } = plane
  const control: PolicyControl = {
    plane,
    load: (text) => load({ text, file: 'document' }, source.current?.value),
  }
  const published = await source.read()
  // A node that has read no version yet would have the first one late.
  await parser
  if (published.ok) return { policy: published, folder, source, control }
  await plane.close()
  throw refusedPolicy(published.problems)
}

function configFromEnvironment(environment: Environment): PolicyConfig {
  const result = parsePolicy(policyFromEnvironment(environment), 'environment')
  if (!result.ok) throw refusedPolicy(result.problems)
  const value = { document: result.document, tierTable: undefined, keyTable: undefined }
  const policy = { value, id: 'environment', loadedAtMs: Date.now() }
  return { policy, folder: process.cwd(), source: undefined }
}

/** The switch is for emergencies, in which there is no time to change files. */
function switchedReader(
  reader: FileReader<PolicyFiles>,
  enabled: boolean | undefined,
): FileReader<PolicyFiles> {
  if (enabled === undefined) return reader
  return {
    path: reader.path,
    load: async (live) => switched(await reader.load(live), enabled),
  }
}

function switched(
  loaded: LoadedFiles<PolicyFiles>,
  enabled: boolean | undefined,
): LoadedFiles<PolicyFiles> {
  if (!loaded.ok || enabled === undefined) return loaded
  const document = { ...loaded.value.document, enabled }
  return { ...loaded, value: { ...loaded.value, document } }
}

function refusedPolicy(problems: readonly ConfigProblem[]): SettingError {
  const lines = problems.map(({ message }) => message)
  const atLeast = lines.length < PROBLEMS_MAX ? '' : 'at least '
  const count = lines.length === 1 ? 'a problem' : `${atLeast}${lines.length} problems`
  return new SettingError(`the policy has ${count}:\n${lines.join('\n')}`)
}
