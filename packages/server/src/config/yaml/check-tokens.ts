/**
 * Bounds a YAML text before it is parsed, because the parser takes long for hostile texts. Walks
 * over the tokens of the lexer, which takes linear time.
 */

import { CST, Lexer } from 'yaml'

export interface TokenCaps {
  /** Spaces included. */
  readonly tokensMax: number
  readonly depthMax: number
  /** Reasons for types of tokens that are not allowed. */
  readonly banned?: Readonly<Record<string, string>>
  /** The reason if a second document is not allowed. */
  readonly secondDocument?: string
}

/** The part of a text that is refused. */
export interface TextProblem {
  /** In UTF-16 code units. */
  readonly offset: number
  readonly reason: string
}

/** The lexer emits it before a scalar. */
const SCALAR_MARK = '\u001f'

export function checkTokens(text: string, caps: TokenCaps): TextProblem | undefined {
  let offset = 0
  let tokens = 0
  let depth = 0
  let documents = 0
  /** In one line: `- - - x` and `? ? ? x` nest as brackets do. */
  let indicators = 0
  let isScalarNext = false
  for (const token of new Lexer().lex(text)) {
    if (++tokens > caps.tokensMax) return { offset, reason: 'the file has too many parts' }
    const type: string | null = isScalarNext ? 'scalar' : CST.tokenType(token)
    isScalarNext = token === SCALAR_MARK && type !== 'scalar'
    const reason = type === null ? undefined : caps.banned?.[type]
    if (reason !== undefined) return { offset, reason }
    if (type === 'flow-seq-start' || type === 'flow-map-start') depth++
    if (type === 'flow-seq-end' || type === 'flow-map-end') depth--
    if (type === 'newline') indicators = 0
    if (type === 'seq-item-ind' || type === 'explicit-key-ind') indicators++
    if (depth + indicators > caps.depthMax) return { offset, reason: 'it is nested too deep' }
    if (type === 'doc-start' && ++documents > 1 && caps.secondDocument !== undefined) {
      return { offset, reason: caps.secondDocument }
    }
    offset += isOfText(token, type) ? token.length : 0
  }
  return undefined
}

/** Some tokens are marks of the lexer and not part of the text. */
function isOfText(token: string, type: string | null): boolean {
  return type !== 'doc-mode' && type !== 'flow-error-end' && token !== SCALAR_MARK
}
