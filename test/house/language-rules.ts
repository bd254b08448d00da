/**
 * The language rules that a pattern can check, in comments, in messages and in documents. A message
 * is a string of several words in the code, also the name of a test.
 */

import type { Rule, Violation } from './rule.ts'
import type { SourceFile, Text } from './source-file.ts'

/** Apart, so that this file does not find itself. */
const vague = ['whoever', 'nobody', 'somebody', 'anew']

const vagueWord = new RegExp(`\\b(${vague.join('|')})\\b`, 'i')
/** Stricter than in documents, where a relative clause of a person is right. */
const vagueWordOfComment = new RegExp(`\\b(who|${vague.join('|')})\\b`, 'i')
const isNo = /(?<!\bthere )\bis no\b(?! longer\b| more than\b)/i
const continued = /^\/\*\*[\s*]*(Of|The same|And)\b/

export const languageRules: readonly Rule[] = [
  {
    name: 'comments and messages name the actor',
    check: (file) => [
      ...matches(commentsOf(file), vagueWordOfComment),
      ...matches(messagesOf(file), vagueWord),
      ...matches(proseOf(file), vagueWord),
    ],
    broken: { 'test/x.ts': `// ${'Who'} waits is served.` },
  },
  {
    name: 'is not a, instead of a negated noun',
    check: (file) => matches([...commentsOf(file), ...messagesOf(file), ...proseOf(file)], isNo),
    broken: { 'README.md': `It ${'is'} no number.` },
  },
  {
    name: 'a doc comment stands alone: it does not begin with Of, The same or And',
    check: (file) => matches(file.syntax?.comments ?? [], continued),
    broken: { 'test/x.ts': '/** The same, with a callback. */' },
  },
]

function matches(texts: readonly Text[], pattern: RegExp): Violation[] {
  return texts.flatMap(({ line, text }) =>
    text.split('\n').flatMap((one, index) => {
      const found = pattern.exec(one)
      return found === null ? [] : [{ line: line + index, text: found[0] }]
    }),
  )
}

function commentsOf({ path, lines, syntax }: SourceFile): readonly Text[] {
  if (syntax !== undefined) return syntax.comments
  if (path.endsWith('.lua')) return lineComments(lines, /--.*/)
  return /\.sh$|^\.ci\/run$/.test(path) ? lineComments(lines, /(?<=^|\s)# .*/) : []
}

function lineComments(lines: readonly string[], pattern: RegExp): Text[] {
  return lines.map((line, index) => ({ line: index + 1, text: pattern.exec(line)?.[0] ?? '' }))
}

function messagesOf({ syntax }: SourceFile): Text[] {
  return (syntax?.strings ?? []).filter(({ text }) => text.includes(' '))
}

function proseOf({ path, lines }: SourceFile): Text[] {
  return path.endsWith('.md') ? lines.map((text, index) => ({ line: index + 1, text })) : []
}
