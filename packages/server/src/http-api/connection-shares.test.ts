import { expect, test } from 'vitest'
import { Shares } from './connection-shares.ts'

function fill(shares: Shares, address: string): number {
  let taken = 0
  while (shares.take(address)) taken += 1
  return taken
}

test('an address alone gets half, and each further one half of the rest', () => {
  const shares = new Shares(1_000)
  const addresses = Array.from({ length: 11 }, (_, at) => `10.0.0.${at}`)
  const taken = addresses.map((address) => fill(shares, address))
  expect(taken).toEqual([500, 250, 125, 63, 31, 16, 8, 4, 2, 1, 0])
})

test('a connection that ends makes room for another one', () => {
  const shares = new Shares(10)
  expect(fill(shares, 'a')).toBe(5)
  expect(fill(shares, 'b')).toBe(3)
  shares.release('a')
  expect(shares.take('b')).toBe(false)
  shares.release('b')
  expect(shares.take('b')).toBe(true)
  expect(shares.take('c')).toBe(true)
})

test('a listener for one connection accepts one', () => {
  const shares = new Shares(1)
  expect([shares.take('a'), shares.take('a'), shares.take('b')]).toEqual([true, false, false])
})
