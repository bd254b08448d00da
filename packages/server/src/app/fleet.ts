/**
 * Publishing for a fleet from outside a service: for nodes with a policy, by the store that their
 * policy file names, and for the rate limit service with Envoy's files, by the environment.
 */

import { readFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { readDirectory } from '../config/directory.ts'
import type { LoadedFiles } from '../config/file-source.ts'
import { AuditedChanges } from '../control/audit/audited-change.ts'
import type { KeyValueStore } from '../control/key-value.ts'
import { type NodeReport, readNodes } from '../control/nodes/node-report.ts'
import { Versions } from '../control/versions/versions.ts'
import { loadPolicy } from '../policy/load-policy.ts'
import { parseInWorkers } from '../policy/policy-parsers.ts'
import { bundleLoader, bundleOf } from '../rls/config/config-bundle.ts'
import { rlsSettings } from '../rls/settings.ts'
import { type Environment, SettingError } from './environment.ts'
import { controlAccess, openEtcd, rlsControl, type SourceChoice } from './etcd-access.ts'

export interface Fleet {
  readonly store: KeyValueStore
  readonly versions: Versions
  /** Writes the audit records of publications. */
  readonly changes: AuditedChanges
  /** Reads the text to publish. Throws SettingError if it cannot be read. */
  read(path: string): Promise<string>
  /** Returns the problems that a node with these settings would refuse the text for. */
  check(text: string, file: string): Promise<readonly string[]>
  nodes(): Promise<readonly NodeReport[]>
  /** Waits until every node has applied or refused the version. Returns their last reports. */
  waitFor(
    version: number,
    timeoutMs: number,
    isAwaited?: (node: NodeReport) => boolean,
  ): Promise<readonly NodeReport[]>
  close(): Promise<void>
}

/** Between two polls of the reports of the nodes. */
const POLL_MS = 50

/** Throws SettingError if the file or the environment is not valid, or names no store. */
export function openFleet(
  file: string | undefined,
  environment: Environment,
  choice: SourceChoice = {},
): Promise<Fleet> {
  if (file === undefined) return openRlsFleet(environment, choice)
  return openPolicyFleet(file, environment, choice)
}

async function openPolicyFleet(
  file: string,
  environment: Environment,
  choice: SourceChoice,
): Promise<Fleet> {
  const local = await loadPolicy(file)
  if (!local.ok) throw new SettingError(local.problems.map(({ message }) => message).join('\n'))
  const { control: section, region } = local.value.document
  const folder = dirname(resolve(file))
  const access = controlAccess({ section, region, folder }, environment, choice)
  if (access === undefined) {
    const why = 'without it the file is the only source, and a change of the file is live at once'
    throw new SettingError(`${file}: control.etcd is missing; ${why}`)
  }
  const store = openEtcd(access.etcd, environment)
  return {
    ...fleetOf(store),
    read: (path) => readable(path, () => readFile(path, 'utf8')),
    check: async (text, name) => {
      const remote = { text, file: name }
      return problemsOf(await loadPolicy(file, { parsers: parseInWorkers, remote }))
    },
  }
}

async function openRlsFleet(environment: Environment, choice: SourceChoice): Promise<Fleet> {
  const settings = await readable('the environment', async () => rlsSettings(environment).settings)
  const etcd = rlsControl(settings.control, choice)
  if (etcd === undefined) {
    throw new SettingError('--config LOCAL or TIDEGATE_ETCD_ENDPOINTS is missing')
  }
  const store = openEtcd(etcd, environment)
  const load = bundleLoader(settings)
  return {
    ...fleetOf(store),
    read: (path) => readable(path, async () => bundleOf(readDirectory(path, settings).files)),
    check: async (text) => problemsOf(await load(text)),
  }
}

function fleetOf(store: KeyValueStore): Omit<Fleet, 'read' | 'check'> {
  return {
    store,
    versions: new Versions(store),
    changes: new AuditedChanges(store),
    nodes: () => readNodes(store),
    waitFor: (version, timeoutMs, isAwaited = () => true) =>
      waitFor(store, version, timeoutMs, isAwaited),
    close: () => store.close(),
  }
}

async function readable<T>(place: string, read: () => Promise<T>): Promise<T> {
  try {
    return await read()
  } catch (error) {
    throw new SettingError(`${place}: ${error instanceof Error ? error.message : String(error)}`)
  }
}

function problemsOf(loaded: LoadedFiles<unknown>): readonly string[] {
  return loaded.ok ? [] : loaded.problems.map(({ message }) => message)
}

/** A node that has refused this version has answered. */
export function hasAnswered(report: NodeReport, version: number): boolean {
  return report.version >= version || report.state === 'refused'
}

async function waitFor(
  store: KeyValueStore,
  version: number,
  timeoutMs: number,
  isAwaited: (node: NodeReport) => boolean,
) {
  const end = Date.now() + timeoutMs
  for (;;) {
    const nodes = await readNodes(store)
    const isDone = nodes.every((node) => !isAwaited(node) || hasAnswered(node, version))
    if (isDone || Date.now() >= end) return nodes
    await sleep(POLL_MS)
  }
}
