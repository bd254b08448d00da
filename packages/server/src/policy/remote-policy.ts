/**
 * A policy from outside, such as from etcd, on top of the local file. It may replace the sections
 * that apply while the process runs. Listeners, stores, certificates and secrets stay local:
 * otherwise a writer of etcd could read files and send requests from the network of the gateway.
 */

import type { PolicyIssue } from './problems/policy-problem.ts'
import type { PolicyDocument } from './schema/policy-schema.ts'

export const remoteSections = [
  'version',
  'enabled',
  'cors',
  'ipLists',
  'routes',
  'tiers',
  'limits',
  'overrides',
  'idempotency',
  'log',
] as const

/** The local policy with the published sections, and with the local secrets of those. */
export function mergedPolicy(local: object, remote: object): object {
  const merged: { idempotency?: unknown } = { ...local, ...remote }
  const { encryptionKey } = sectionOf(local, 'idempotency')
  if (encryptionKey !== undefined && isObject(merged.idempotency)) {
    merged.idempotency = { ...merged.idempotency, encryptionKey }
  }
  return merged
}

/** Returns one issue for each section that has to stay in the local file, and for each secret. */
export function sectionIssues(value: object): PolicyIssue[] {
  const allowed = remoteSections.join(', ')
  const secrets: PolicyIssue[] = []
  if (sectionOf(value, 'idempotency').encryptionKey !== undefined) {
    const text = 'cannot be published, because it names a secret; it stays in the local file'
    secrets.push({ path: ['idempotency', 'encryptionKey'], isAboutKey: true, text })
  }
  const sections = Object.keys(value)
    .filter((section) => !remoteSections.some((known) => known === section))
    .map((section) => {
      const text = `cannot be published, it stays in the local file; allowed: ${allowed}`
      return { path: [section], isAboutKey: true, text }
    })
  return [...sections, ...secrets]
}

function sectionOf(policy: object, name: string): Readonly<Record<string, unknown>> {
  const section: unknown = Reflect.get(policy, name)
  return isObject(section) ? section : {}
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Returns one issue for each file and URL that the local file has not allowed by name. */
export function nameIssues({ tiers, control }: PolicyDocument, remote: object): PolicyIssue[] {
  const { file, url } = tiers?.lookup ?? {}
  if (!Object.hasOwn(remote, 'tiers')) return []
  const { files, urls } = control?.allow ?? { files: [], urls: [] }
  const issues: PolicyIssue[] = []
  if (file !== undefined && !files.includes(file)) {
    issues.push(foreign('file', 'control.allow.files'))
  }
  if (url !== undefined && !urls.includes(url)) {
    issues.push(foreign('url', 'control.allow.urls'))
  }
  return issues
}

function foreign(field: string, list: string): PolicyIssue {
  const text = `a published policy may name it only if the local file lists it in ${list}`
  return { path: ['tiers', 'lookup', field], text }
}
