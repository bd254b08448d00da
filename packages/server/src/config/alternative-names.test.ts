import { expect, test } from 'vitest'
import { alternativeNames } from './alternative-names.ts'

test.for<[string, readonly string[]]>([
  ['', []],
  ['DNS:a.example', ['a.example']],
  ['DNS:a.example, URI:spiffe://b/c', ['a.example', 'spiffe://b/c']],
  ['IP Address:192.0.2.1, email:a@b.example', ['192.0.2.1', 'a@b.example']],
  ['DNS:"x, DNS:ops.example, y"', []],
  ['DNS:"x\\", DNS:ops.example, \\"y", DNS:b', ['b']],
  ['DNS:a, URI:"http://x, DNS:ops.example", DNS:b', ['a', 'b']],
])('%s has the names %j', ([text, names]) => {
  expect(alternativeNames(text)).toEqual(names)
})
