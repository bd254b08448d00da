/** Errors in the words of clients; those of ioredis and node-redis are tested on real servers. */

import { describe, expect, it } from 'vitest'
import { isNoScript, isTryAgain, isWrongServer, redisError } from './redis-error.ts'

const signalled = 'An error was signalled by the server: - '

describe('an error of GLIDE', () => {
  it.each([
    [
      `${signalled}ReadOnly: You can't write against a read only replica. @user_script:1.`,
      'failed',
    ],
    [`${signalled}MasterDown: Link with MASTER is down.`, 'failed'],
    [`${signalled}BusyLoadingError: Redis is loading the dataset in memory`, 'failed'],
    ['OOM: command not allowed when used memory > maxmemory. @user_script:1.', 'failed'],
    ['NOREPLICAS: Not enough good replicas to write. @user_script:1.', 'failed'],
    [`${signalled}PermissionDenied: this user has no permissions to run it`, 'misconfigured'],
    [`${signalled}ResponseError: The user executing the script can't run this`, 'misconfigured'],
    ['WRONGTYPE: Operation against a key holding the wrong kind of value', 'misconfigured'],
    ['timed out', 'unreachable'],
  ])('%s', (message, meaning) => {
    expect(redisError(new Error(message)).code).toBe(`store-${meaning}`)
  })

  it('tells whether the script was refused, and why', () => {
    expect(isNoScript(new Error(`${signalled}NoScriptError: No matching script.`))).toBe(true)
    expect(isNoScript(new Error(`${signalled}ResponseError: NOSCRIPT`))).toBe(false)
    expect(isTryAgain(new Error(`${signalled}TryAgain: Multiple keys request`))).toBe(true)
    expect(isWrongServer(new Error(`${signalled}ReadOnly: You can't write`))).toBe(true)
  })
})

describe('an error of @upstash/redis', () => {
  it.each([
    ['NOSCRIPT No matching script. Please use EVAL., command was: ["evalsha","0"]', true],
    ['Command failed: NOSCRIPT No matching script. Please use EVAL.', true],
    ['Command failed: ERR value is not an integer or out of range', false],
  ])('%s', (message, isRefused) => {
    expect(isNoScript(new Error(message))).toBe(isRefused)
  })
})
