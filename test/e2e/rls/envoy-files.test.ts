/** The files in deploy/envoy: a real Envoy accepts them, and their limits apply. */

import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, onTestFinished, test } from 'vitest'
import { parse, parseAllDocuments } from 'yaml'
import { checkRlsConfig } from '../../../packages/server/src/rls/config/check-config.ts'
import { parseConfig } from '../../../packages/server/src/rls/config/rls-config.ts'
import { rlsSettings } from '../../../packages/server/src/rls/settings.ts'
import { readText, repositoryRoot } from '../../house/source-file.ts'
import { makeFolder, removeFolder } from '../../support/servers/server-process.ts'
import { envoyBinary } from './envoy.ts'

const folder = 'deploy/envoy'

interface Manager {
  http_filters: object[]
  route_config: { virtual_hosts: Record<string, unknown>[] }
}

interface EnvoyFile {
  static_resources: {
    listeners: { filter_chains: { filters: { typed_config: Manager }[] }[] }[]
    clusters: { name: string }[]
  }
}

interface IstioPatch {
  readonly applyTo: string
  readonly patch: { readonly value: Record<string, unknown> }
}

interface GatewayPatch {
  readonly type: string
  readonly operation: { readonly value: never }
}

describe('the limits', () => {
  test('of the sample are right, and nothing in them is doubtful', () => {
    const { problems, warnings, rules } = checkRlsConfig(join(repositoryRoot, folder, 'limits'))
    expect({ problems, warnings, rules }).toEqual({ problems: [], warnings: [], rules: 4 })
  })

  test('of the ConfigMap are right', () => {
    const [map] = documentsOf<{ data: Record<string, string> }>('kubernetes.yaml')
    const files = Object.entries(map?.data ?? {}).map(([name, text]) => ({ name, text }))
    expect(parseConfig(files).rules).toHaveLength(1)
  })
})

test('the deployment sets only known variables, without a warning', () => {
  const [, deployment] = documentsOf<{
    spec: { template: { spec: { containers: { env: { name: string; value: string }[] }[] } } }
  }>('kubernetes.yaml')
  const [container] = deployment?.spec.template.spec.containers ?? []
  const environment = Object.fromEntries(
    (container?.env ?? []).map(({ name, value }) => [name, value]),
  )
  const { settings, notes } = rlsSettings(environment)
  expect(notes).toEqual([])
  expect(settings).toMatchObject({ configDirectory: '/data/ratelimit/config', unhealthyMs: 3_000 })
})

// `./run.sh test-envoy` installs Envoy and sets TIDEGATE_ENVOY.
describe.skipIf(envoyBinary === undefined)('a real Envoy takes', () => {
  test.each(['envoy.yaml', 'envoy-shadow.yaml'])('%s', async (name) => {
    await expectValid(parse(readText(`${folder}/${name}`)))
  })

  test('istio.yaml is a valid configuration', async () => {
    const base = withoutLimits()
    const patches = documentsOf<{ spec: { configPatches: IstioPatch[] } }>('istio.yaml').flatMap(
      ({ spec }) => spec.configPatches,
    )
    for (const { applyTo, patch } of patches) {
      if (applyTo === 'HTTP_FILTER') managerOf(base).http_filters.unshift(patch.value)
      else Object.assign(managerOf(base).route_config.virtual_hosts[0] ?? {}, patch.value)
    }
    const [cluster] = base.static_resources.clusters
    if (cluster !== undefined) {
      cluster.name = 'outbound|8081||ratelimit.ratelimit.svc.cluster.local'
    }
    await expectValid(base)
  })

  test('envoy-gateway.yaml is a valid configuration', async () => {
    const base = withoutLimits()
    base.static_resources.clusters.shift()
    const [policy] = documentsOf<{ spec: { jsonPatches: GatewayPatch[] } }>('envoy-gateway.yaml')
    for (const { type, operation } of policy?.spec.jsonPatches ?? []) {
      if (type.endsWith('.Listener')) managerOf(base).http_filters.unshift(operation.value)
      else if (type.endsWith('.Cluster')) base.static_resources.clusters.push(operation.value)
      else Object.assign(managerOf(base).route_config.virtual_hosts[0] ?? {}, limits(operation))
    }
    await expectValid(base)
  })
})

function limits({ value }: GatewayPatch['operation']): object {
  return { rate_limits: value }
}

/** envoy.yaml without its rate limits. */
function withoutLimits(): EnvoyFile {
  const file = parse(readText(`${folder}/envoy.yaml`)) as EnvoyFile
  const manager = managerOf(file)
  manager.http_filters.shift()
  delete manager.route_config.virtual_hosts[0]?.rate_limits
  return file
}

function managerOf(file: EnvoyFile): Manager {
  const manager = file.static_resources.listeners[0]?.filter_chains[0]?.filters[0]?.typed_config
  if (manager === undefined) throw new Error('envoy.yaml has no connection manager')
  return manager
}

async function expectValid(config: object): Promise<void> {
  const own = makeFolder()
  onTestFinished(() => removeFolder(own))
  const file = join(own, 'envoy.json')
  writeFileSync(file, JSON.stringify(config))
  const args = ['--mode', 'validate', '-l', 'error', '-c', file]
  const { stdout } = await promisify(execFile)(envoyBinary ?? 'envoy', args)
  expect(stdout).toContain('OK')
}

function documentsOf<T>(name: string): T[] {
  const documents = parseAllDocuments(readText(`${folder}/${name}`))
  return documents.map((document) => document.toJS() as T)
}
