import { expect, test } from 'vitest'
import { HeldOffClients } from './held-off-clients.ts'

test('a client is held off for 30 s from its third offence within a minute', () => {
  const clients = new HeldOffClients()
  clients.report('a', 0)
  clients.report('a', 1_000)
  expect(clients.has('a', 2_000)).toBe(false)
  clients.report('a', 3_000)
  expect([clients.has('a', 32_999), clients.has('a', 33_000)]).toEqual([true, false])
  expect(clients.has('b', 3_000)).toBe(false)
})

test('a further offence holds it off again, and one after a minute counts as the first', () => {
  const clients = new HeldOffClients()
  for (const atMs of [0, 0, 0, 40_000]) clients.report('a', atMs)
  expect([clients.has('a', 69_999), clients.has('a', 70_000)]).toEqual([true, false])
  clients.report('a', 100_000)
  expect(clients.has('a', 100_000)).toBe(false)
})

test('of more than 10,000 clients the oldest is forgotten', () => {
  const clients = new HeldOffClients()
  for (let at = 0; at <= 10_000; at += 1) {
    for (let count = 0; count < 3; count += 1) clients.report(`client ${at}`, at)
  }
  expect([clients.has('client 0', 10_001), clients.has('client 1', 10_001)]).toEqual([false, true])
})
