/**
 * Checks a directory of configuration without serving it. Reports the first problem of each file,
 * then problems between files, and settings that are allowed but probably mistakes.
 */

import { type DirectoryOptions, readDirectory } from '../../config/directory.ts'
import { RlsConfigError } from './config-error.ts'
import { type DescriptorFields, decodeFile, type FileFields } from './decode-file.ts'
import { type ConfigOptions, defaultConfigOptions, loadConfig } from './rls-config.ts'
import { wildcard } from './value-match.ts'

export interface ConfigRemark {
  readonly file: string
  readonly message: string
}

export interface ConfigCheck {
  readonly files: number
  readonly domains: number
  readonly rules: number
  /** If there are any, the directory is refused. */
  readonly problems: readonly ConfigRemark[]
  readonly warnings: readonly ConfigRemark[]
}

export function checkRlsConfig(
  directory: string,
  options: Partial<ConfigOptions & DirectoryOptions> = {},
): ConfigCheck {
  const all = { ...defaultConfigOptions, ignoresDotFiles: false, ...options }
  const problems: ConfigRemark[] = []
  const attempt = <T>(file: string, act: () => T): T | undefined => {
    try {
      return act()
    } catch (error) {
      problems.push(problemOf(file, error))
      return undefined
    }
  }
  const files = attempt(directory, () => readDirectory(directory, all).files) ?? []
  const decoded = files.flatMap(
    ({ name, text }) => attempt(name, () => decodeFile(name, text)) ?? [],
  )
  const alone = decoded.filter((one) => attempt(one.file, () => loadConfig([one], all)))
  const config = attempt(directory, () => loadConfig(alone, all))
  if (files.length === 0 && problems.length === 0) {
    problems.push({ file: directory, message: 'the directory has no files' })
  }
  return {
    files: files.length,
    domains: config?.domains.size ?? 0,
    rules: config?.rules.length ?? 0,
    problems,
    warnings: warningsOf(decoded),
  }
}

function problemOf(file: string, error: unknown): ConfigRemark {
  if (error instanceof RlsConfigError) return { file: error.file, message: error.text }
  return { file, message: error instanceof Error ? error.message : String(error) }
}

function warningsOf(files: readonly FileFields[]): ConfigRemark[] {
  const names = new Set<string>()
  for (const { descriptors } of files)
    visit(descriptors, ({ limit }) => names.add(limit?.name ?? ''))
  return files.flatMap(({ file, domain, descriptors, warnings }) => {
    const messages = [...warnings, ...hiddenIn(descriptors, domain)]
    visit(descriptors, ({ limit }) => {
      for (const name of limit?.replaces ?? []) {
        if (!names.has(name)) messages.push(`replaces '${name}', but no limit has that name`)
      }
    })
    return messages.map((message) => ({ file, message }))
  })
}

function visit(
  descriptors: readonly DescriptorFields[],
  see: (descriptor: DescriptorFields) => void,
): void {
  for (const descriptor of descriptors) {
    see(descriptor)
    visit(descriptor.descriptors, see)
  }
}

/**
 * Returns patterns that follow one that matches all of their values. A pattern that matches the
 * text of another matches all its values: a `*` in that text can only match a `*`.
 */
function hiddenIn(descriptors: readonly DescriptorFields[], parent: string): string[] {
  return descriptors.flatMap(({ key, value, descriptors: inner }, at) => {
    const label = value === '' ? key : `${key}_${value}`
    const found = hiddenIn(inner, `${parent}.${label}`)
    if (!value.includes('*')) return found
    const earlier = descriptors
      .slice(0, at)
      .find((one) => one.key === key && one.value.includes('*') && wildcard(one.value)(value))
    if (earlier === undefined) return found
    return [...found, `'${parent}.${label}' is never reached: '${earlier.value}' comes before it`]
  })
}
