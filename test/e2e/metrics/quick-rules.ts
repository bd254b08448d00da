/**
 * The rules of deploy/prometheus for a test that cannot wait: a minute becomes a second, in
 * windows, in offsets, in `for`, and in numbers of seconds that are written as `5 * 60`. The day
 * before, which would still be 24 minutes ago, is as long ago as a test asks for. Nothing else
 * changes.
 */

import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { parse, stringify } from 'yaml'
import { readText, repositoryRoot } from '../../house/source-file.ts'

const folder = 'deploy/prometheus/rules'

const SPEED = 60

const INTERVAL = '500ms'

const millisecondsOf: Readonly<Record<string, number>> = {
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
}

export interface Rule {
  readonly alert?: string
  readonly record?: string
  readonly expr: string
  readonly for?: string
}

interface RuleFile {
  readonly groups: readonly { readonly name: string; readonly rules: readonly Rule[] }[]
}

/** The texts of all rule files. `offset 1d` becomes `dayBefore`, if it is given. */
export function quickRuleFiles(dayBefore?: string): readonly string[] {
  return ruleFiles().map(({ groups }) =>
    stringify({
      groups: groups.map((group) => ({
        ...group,
        interval: INTERVAL,
        rules: group.rules.map((rule) => quickRule(rule, dayBefore)),
      })),
    }),
  )
}

export function quickRules(): readonly Rule[] {
  return ruleFiles().flatMap(({ groups }) =>
    groups.flatMap(({ rules }) => rules.map((rule) => quickRule(rule))),
  )
}

function ruleFiles(): readonly RuleFile[] {
  const files = readdirSync(join(repositoryRoot, folder))
  return files.map((file) => parse(readText(`${folder}/${file}`)) as RuleFile)
}

function quickRule(rule: Rule, dayBefore = quickTime('1d')): Rule {
  const expr = rule.expr
    .replaceAll(/\[(\d+[smhd])\]/g, (_, time: string) => `[${quickTime(time)}]`)
    .replaceAll('offset 1d', `offset ${dayBefore}`)
    .replaceAll(/(\d+) \* 60\b/g, '$1')
  return { ...rule, expr, ...(rule.for !== undefined && { for: quickTime(rule.for) }) }
}

function quickTime(text: string): string {
  const [, count = '', unit = ''] = /^(\d+)([smhd])$/.exec(text) ?? []
  return `${(Number(count) * (millisecondsOf[unit] ?? Number.NaN)) / SPEED}ms`
}
