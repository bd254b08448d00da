/**
 * The TypeScript and JavaScript snippets of the documents: their places, their expected output, and
 * whether they start a server.
 *
 * A snippet shows its output as comments, behind or right below a `console.log`. A snippet that
 * cannot run alone is preceded by `<!-- not run: reason -->`.
 */

export interface Snippet {
  /** The document and the line of the first line of code, such as `README.md:12`. */
  readonly place: string
  /** The name of its file, whose lines are numbered as in the document. */
  readonly file: string
  readonly code: string
  readonly expectedLines: readonly string[]
  /** True if it listens on a port for its reader to open. */
  readonly isServer: boolean
  readonly notRun: string | undefined
}

const fence = /^(?<indent> *)```(?<language>\w*)/
const reason = /^<!-- not run: (?<reason>.+) -->$/
const serverPort = /\blisten\(\d{2,}|\bport: \d{2,}/

export function snippetsOf(document: string, text: string): Snippet[] {
  const lines = text.split('\n')
  const snippets: Snippet[] = []
  for (let at = 0; at < lines.length; at++) {
    const language = fence.exec(lines[at] ?? '')?.groups?.language
    if (language === undefined) continue
    const first = at + 1
    const end = lines.findIndex((line, index) => index >= first && /^ *```\s*$/.test(line))
    if (end === -1) throw new Error(`${document}:${first}: the code block has no end`)
    if (isProgram(language)) {
      const notRun = reason.exec(lines[at - 1] ?? '') ?? reason.exec(lines[at - 2] ?? '')
      snippets.push({
        ...snippet(document, first, language, lines.slice(first, end)),
        notRun: notRun?.groups?.reason,
      })
    }
    at = end
  }
  return snippets
}

function isProgram(language: string): boolean {
  return ['ts', 'js', 'typescript', 'javascript', 'mjs', 'cjs'].includes(language)
}

function snippet(document: string, first: number, language: string, lines: readonly string[]) {
  const code = lines.join('\n')
  const kind = /\brequire\(/.test(code) ? 'c' : ''
  const extension = `${kind}${language.includes('t') ? 'ts' : 'js'}`
  return {
    place: `${document}:${first + 1}`,
    file: `${document.replaceAll('/', '--')}.line-${first + 1}.${extension}`,
    code: `${'\n'.repeat(first)}${code}\n`,
    expectedLines: expectedLines(lines),
    isServer: serverPort.test(code),
  }
}

/** The comments behind and right below each `console.log`. */
function expectedLines(lines: readonly string[]): string[] {
  return lines.flatMap((line, at) => {
    if (!/\bconsole\.log\(/.test(line)) return []
    const behind = /\)\s*\/\/ (.*)$/.exec(line)
    if (behind !== null) return [behind[1] ?? '']
    const below = lines.slice(at + 1)
    const count = below.findIndex((next) => !/^\s*\/\/ /.test(next))
    return below.slice(0, count).map((comment) => comment.replace(/^\s*\/\/ /, ''))
  })
}
