/** The house style as an ordinary test; rules.ts has the rules. */

import { describe, expect, test } from 'vitest'
import type { Rule } from './rule.ts'
import { rules } from './rules.ts'
import { repositoryFiles, type SourceFile, sourceFile } from './source-file.ts'

const files = repositoryFiles()

describe('tidy', () => {
  for (const rule of rules) {
    test(rule.name, () =>
      expect(files.flatMap((file) => violations(rule, file, files))).toEqual([]),
    )
  }
})

describe('tidy finds a file that breaks the rule', () => {
  for (const rule of rules) {
    const broken = Object.entries(rule.broken).map(([path, text]) => sourceFile(path, text))
    test(rule.name, () =>
      expect(broken.flatMap((file) => violations(rule, file, broken))).toHaveLength(1),
    )
  }
})

function violations(rule: Rule, file: SourceFile, all: readonly SourceFile[]): string[] {
  const found = rule.check(file, all).map(({ line, text }) => `${file.path}:${line}: ${text}`)
  return [...new Set(found)]
}
