/**
 * The value of a plain scalar of YAML. The reference parses with Go's yaml.v2, which follows YAML
 * 1.1 with its own exceptions: `yes` is true, `010` is 8, `1_000` is a number, `08` is a float.
 *
 * https://github.com/go-yaml/yaml/blob/v2/resolve.go
 */

export type ScalarTag = 'null' | 'bool' | 'int' | 'float' | 'str'

export interface Scalar {
  readonly tag: ScalarTag
  readonly value: string | number | boolean | null
}

const words = new Map<string, Scalar>([
  ...meaning({ tag: 'null', value: null }, ['', '~', 'null', 'Null', 'NULL']),
  ...meaning({ tag: 'bool', value: true }, ['y', 'Y', 'yes', 'Yes', 'YES']),
  ...meaning({ tag: 'bool', value: true }, ['on', 'On', 'ON', 'true', 'True', 'TRUE']),
  ...meaning({ tag: 'bool', value: false }, ['n', 'N', 'no', 'No', 'NO']),
  ...meaning({ tag: 'bool', value: false }, ['off', 'Off', 'OFF', 'false', 'False', 'FALSE']),
  ...meaning({ tag: 'float', value: Number.NaN }, ['.nan', '.NaN', '.NAN']),
  ...meaning({ tag: 'float', value: Infinity }, ['.inf', '.Inf', '.INF', '+.inf', '+.Inf']),
  ...meaning({ tag: 'float', value: -Infinity }, ['-.inf', '-.Inf', '-.INF']),
])

const FLOAT = /^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$/

/** Go's int has 64 bits; a larger number is a float. */
const INT_MAX = 2 ** 63

export function resolveScalar(text: string): Scalar {
  const word = words.get(text)
  if (word !== undefined) return word
  const digits = text.replaceAll('_', '')
  const whole = /^[-+.0-9]/.test(text) ? wholeOf(digits) : undefined
  if (whole !== undefined && Math.abs(whole) < INT_MAX) return { tag: 'int', value: whole }
  if (whole !== undefined || FLOAT.test(digits)) return { tag: 'float', value: Number(digits) }
  return { tag: 'str', value: text }
}

function wholeOf(digits: string): number | undefined {
  const [, sign, body = ''] = /^([-+]?)(0|[1-9][0-9]*)$/.exec(digits) ?? based(digits) ?? []
  if (body === '') return undefined
  const value = Number(body)
  return sign === '-' ? -value : value
}

/** A leading zero alone means octal. */
function based(digits: string): readonly [string, string, string] | undefined {
  const [all = '', sign = '', prefix = '', body = ''] =
    /^([-+]?)(0[xX]|0[bB]|0[oO]|0)([0-9a-fA-F]+)$/.exec(digits) ?? []
  const radix = { '0x': '[0-9a-f]', '0b': '[01]', '0o': '[0-7]', '0': '[0-7]' }[
    prefix.toLowerCase()
  ]
  if (radix === undefined || !new RegExp(`^${radix}+$`, 'i').test(body)) return undefined
  return [all, sign, `${prefix === '0' ? '0o' : prefix}${body}`]
}

function meaning(scalar: Scalar, texts: readonly string[]): [string, Scalar][] {
  return texts.map((text) => [text, scalar])
}
