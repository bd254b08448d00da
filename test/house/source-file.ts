/**
 * The repository's files as data for the tidy test, with the parts of their syntax that rules need.
 * It does not know the rules.
 */

import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join, posix } from 'node:path'
import { type ESTree, parseSync, Visitor } from 'vite'

export interface SourceFile {
  /** Relative to the root of the repository, with slashes. */
  readonly path: string
  readonly lines: readonly string[]
  /** Defined for TypeScript. */
  readonly syntax: Syntax | undefined
}

export interface Syntax {
  readonly imports: readonly Import[]
  readonly functions: readonly FunctionSpan[]
  /** Calls and the members that are read, by their dotted names: `Date.now`, `test.skip`. */
  readonly uses: readonly Use[]
  readonly declarations: readonly { readonly name: string; readonly line: number }[]
  readonly anyLines: readonly number[]
  readonly defaultExportLines: readonly number[]
  readonly comments: readonly Text[]
  /** String literals, and the constant parts of template literals. */
  readonly strings: readonly Text[]
}

export interface Text {
  /** The line at which it begins. */
  readonly line: number
  readonly text: string
}

export interface Import {
  readonly from: string
  /** The imported file relative to the root, if `from` is a relative path. */
  readonly target: string | undefined
  readonly isTypeOnly: boolean
  readonly line: number
}

export interface FunctionSpan {
  readonly line: number
  readonly lineCount: number
  /** True if it directly calls `describe`, `test` or `it`: a list of tests, not logic. */
  readonly isSuite: boolean
}

export interface Use {
  readonly name: string
  readonly line: number
  /** The number of arguments of a call; undefined for a read. */
  readonly argumentCount: number | undefined
}

export const repositoryRoot = join(import.meta.dirname, '../..')

const FOLDERS_NOT_OURS = ['.git', 'node_modules', 'dist', '.tools', '.cache']

/** All files that git does not ignore, with their syntax: parsing them takes seconds. */
export function repositoryFiles(): SourceFile[] {
  return repositoryPaths().map((path) => sourceFile(path, readText(path)))
}

/** The paths of all files that git does not ignore. */
export function repositoryPaths(): string[] {
  const listing = ['ls-files', '-z', '--cached', '--others', '--exclude-standard']
  const git = spawnSync('git', listing, { cwd: repositoryRoot, encoding: 'utf8' })
  const listed = git.status === 0 ? git.stdout.split('\0').filter((path) => path !== '') : []
  // During a merge, git lists a file once for each side.
  const paths = listed.length > 0 ? [...new Set(listed)] : pathsBelow('')
  return paths.filter((path) => isFile(path))
}

export function isThere(path: string): boolean {
  return existsSync(join(repositoryRoot, path))
}

export function readText(path: string): string {
  return readFileSync(join(repositoryRoot, path), 'utf8')
}

export function sourceFile(path: string, text: string): SourceFile {
  const isTypeScript = /\.tsx?$/.test(path)
  return {
    path,
    lines: text.includes('\0') ? [] : text.split('\n'),
    syntax: isTypeScript ? syntaxOf(path, text) : undefined,
  }
}

function isFile(path: string): boolean {
  return statSync(join(repositoryRoot, path), { throwIfNoEntry: false })?.isFile() ?? false
}

function pathsBelow(folder: string): string[] {
  return readdirSync(join(repositoryRoot, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = posix.join(folder, entry.name)
    if (!entry.isDirectory()) return [path]
    return FOLDERS_NOT_OURS.includes(entry.name) ? [] : pathsBelow(path)
  })
}

function syntaxOf(path: string, text: string): Syntax {
  const { program, comments } = parseSync(path, text)
  const lineAt = lineIndex(text)
  return {
    ...importsAndExports(path, program, lineAt),
    functions: functionsOf(program, lineAt),
    uses: usesOf(program, lineAt),
    ...namesOf(program, lineAt),
    comments: comments.map(({ start, end }) => ({
      line: lineAt(start),
      text: text.slice(start, end),
    })),
    strings: stringsOf(program, lineAt),
  }
}

type LineAt = (offset: number) => number

function lineIndex(text: string): LineAt {
  const ends: number[] = []
  for (let end = text.indexOf('\n'); end !== -1; end = text.indexOf('\n', end + 1)) ends.push(end)
  return (offset) => {
    let low = 0
    let high = ends.length
    while (low < high) {
      const middle = (low + high) >> 1
      if ((ends[middle] ?? 0) < offset) low = middle + 1
      else high = middle
    }
    return low + 1
  }
}

function importsAndExports(path: string, program: ESTree.Program, lineAt: LineAt) {
  const imports: Import[] = []
  const defaultExportLines: number[] = []
  const add = (node: ESTree.Node, from: string, isTypeOnly: boolean) => {
    const target = from.startsWith('.') ? posix.join(posix.dirname(path), from) : undefined
    imports.push({ from, target, isTypeOnly, line: lineAt(node.start) })
  }
  new Visitor({
    ImportDeclaration(node) {
      const { specifiers } = node
      const areTypes = specifiers.every((s) => s.type === 'ImportSpecifier' && isType(s.importKind))
      const isTypeOnly = isType(node.importKind) || (specifiers.length > 0 && areTypes)
      add(node, node.source.value, isTypeOnly)
    },
    ExportNamedDeclaration(node) {
      if (node.source === null) return
      const areTypes = node.specifiers.every((specifier) => isType(specifier.exportKind))
      add(node, node.source.value, isType(node.exportKind) || areTypes)
    },
    ExportAllDeclaration: (node) => add(node, node.source.value, isType(node.exportKind)),
    ImportExpression(node) {
      if (node.source.type === 'Literal') add(node, String(node.source.value), false)
    },
    ExportDefaultDeclaration: (node) => defaultExportLines.push(lineAt(node.start)),
  }).visit(program)
  return { imports, defaultExportLines }
}

function isType(kind: string | undefined): boolean {
  return kind === 'type'
}

function functionsOf(program: ESTree.Program, lineAt: LineAt): FunctionSpan[] {
  const found: { -readonly [K in keyof FunctionSpan]: FunctionSpan[K] }[] = []
  const open: typeof found = []
  const enter = (node: ESTree.Node) => {
    const line = lineAt(node.start)
    const span = { line, lineCount: lineAt(node.end) - line + 1, isSuite: false }
    found.push(span)
    open.push(span)
  }
  const leave = () => void open.pop()
  new Visitor({
    FunctionDeclaration: enter,
    'FunctionDeclaration:exit': leave,
    FunctionExpression: enter,
    'FunctionExpression:exit': leave,
    ArrowFunctionExpression: enter,
    'ArrowFunctionExpression:exit': leave,
    CallExpression(node) {
      const innermost = open.at(-1)
      if (innermost && /^(describe|test|it)\b/.test(dotted(node.callee))) innermost.isSuite = true
    },
  }).visit(program)
  return found
}

function usesOf(program: ESTree.Program, lineAt: LineAt): Use[] {
  const uses: Use[] = []
  const addCall = (node: ESTree.CallExpression | ESTree.NewExpression, prefix: string) => {
    const name = prefix + dotted(node.callee)
    uses.push({ name, line: lineAt(node.start), argumentCount: node.arguments.length })
  }
  new Visitor({
    CallExpression: (node) => addCall(node, ''),
    NewExpression: (node) => addCall(node, 'new '),
    MemberExpression(node) {
      uses.push({ name: dotted(node), line: lineAt(node.start), argumentCount: undefined })
    },
  }).visit(program)
  return uses
}

function stringsOf(program: ESTree.Program, lineAt: LineAt): Text[] {
  const strings: Text[] = []
  const add = (node: ESTree.Node, text: string) => strings.push({ line: lineAt(node.start), text })
  new Visitor({
    Literal(node) {
      if (typeof node.value === 'string') add(node, node.value)
    },
    TemplateElement: (node) => add(node, node.value.raw),
  }).visit(program)
  return strings
}

function dotted(node: ESTree.Node): string {
  if (node.type === 'Identifier') return node.name
  if (node.type === 'CallExpression') return dotted(node.callee)
  if (node.type !== 'MemberExpression' || node.property.type !== 'Identifier') return ''
  return `${dotted(node.object)}.${node.property.name}`
}

function namesOf(program: ESTree.Program, lineAt: LineAt) {
  const declarations: { name: string; line: number }[] = []
  const anyLines: number[] = []
  const add = ({ id }: { id: ESTree.Node | null }) => {
    if (id?.type === 'Identifier') declarations.push({ name: id.name, line: lineAt(id.start) })
  }
  new Visitor({
    ClassDeclaration: add,
    FunctionDeclaration: add,
    TSInterfaceDeclaration: add,
    TSTypeAliasDeclaration: add,
    VariableDeclarator: add,
    TSAnyKeyword: (node) => anyLines.push(lineAt(node.start)),
  }).visit(program)
  return { declarations, anyLines }
}
