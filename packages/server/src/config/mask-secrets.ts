/**
 * Masks the parts of a text that look like credentials. Every message of a log, of `/status` and of
 * the command line passes through it.
 *
 * It knows shapes, not values: a bare password has no shape. For the fields of a policy,
 * shown-fields.ts decides which values a message may repeat.
 */

const MASK = '***'

/** Ends at the end of the quotes, of the entry or of the line. */
const REST = `[^"'\`,;&}\\]\\n]+`

const NAMES =
  'pass(?:word|wd|phrase)?|pwd|secret|token|authorization|credentials?|(?:api|access)[-_]?key'

const shapes: ReadonlyArray<readonly [RegExp, string]> = [
  // User info of a URL: https://www.rfc-editor.org/rfc/rfc3986#section-3.2.1
  [/([a-z][a-z0-9+.-]{0,31}:\/\/)[^\s"'`<>]*@/gi, `$1${MASK}@`],
  // `user:password@host` without a scheme.
  [/(?<=^|[\s"'`<>@[(])[^\s"'`<>@:]{0,128}:(?!\/\/)[^\s"'`<>@]{1,256}@(?=[\w.[-])/g, `${MASK}@`],
  [/-----BEGIN [^\n]*/g, `-----BEGIN ${MASK}`],
  // `password=x` and `password:x`. With a space after the colon it is the path of a field.
  [new RegExp(`\\b((?:${NAMES})["']?[:=])(?=[^\\s*])${REST}`, 'gi'), `$1${MASK}`],
  [/\b(bearer|basic)\s+(?!token\b|\*)[A-Za-z0-9._~+/=-]{6,}/gi, `$1 ${MASK}`],
  // V8's message about invalid JSON repeats the text.
  [/Unexpected token [^\n]*is not valid JSON/g, 'it is not valid JSON'],
]

/** Longer lines are cut: some shapes take quadratic time, and the rest helps no reader. */
const LINE_LENGTH_MAX = 4_096

export function maskSecrets(text: string): string {
  return text.split('\n').map(maskLine).join('\n')
}

function maskLine(line: string): string {
  let masked = line.length > LINE_LENGTH_MAX ? `${line.slice(0, LINE_LENGTH_MAX)}…` : line
  for (const [shape, replacement] of shapes) masked = masked.replace(shape, replacement)
  return masked
}
