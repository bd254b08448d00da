/**
 * The methods that the store needs of a Redis client, and an adapter for each client. The user
 * passes the client; its package is not imported, only the few methods below are declared.
 *
 * The clients' options decide how they connect, retry and queue. Deadlines and the meaning of
 * errors are not part of this file.
 */

import { invalid, TidegateError } from '../../errors.ts'
import { evalshaSender, type SendEvalsha } from './evalsha-command.ts'
import { type IoredisCluster, IoredisMasters } from './ioredis-masters.ts'

/**
 * Integers of a reply are exact up to here, not up to 2^53 - 1: the clients read the last digit as
 * the code of its character and then take off the code of `0`, which is 48.
 */
export const INTEGER_REPLY_MAX = 2 ** 53 - 48

/** Runs scripts. With any client, integers of a reply are numbers, arrays arrays, and nil null. */
export interface RedisCaller {
  /** True if keys are spread over nodes, so that the keys of a call must share a slot. */
  readonly isCluster: boolean
  /** Runs a loaded script on the node of the first key; rejects with the server's error. */
  evalsha(sha1: string, keys: readonly string[], args: readonly string[]): Promise<unknown>
  /** Like `evalsha`, without a promise. Only for clients that offer a faster way. */
  readonly sendEvalsha?: SendEvalsha | undefined
  /** Runs a script by its text, which also loads it there. */
  eval(script: string, keys: readonly string[], args: readonly string[]): Promise<unknown>
  /** True if the two functions below work. */
  readonly canWait: boolean
  /**
   * EVALSHA and then WAIT on the same connection, until `replicas` have the script's writes, or for
   * `timeoutMs`, which must not be 0. Rejects if either fails, even if the script ran.
   */
  evalshaAndWait(
    sha1: string,
    keys: readonly string[],
    args: readonly string[],
    replicas: number,
    timeoutMs: number,
  ): Promise<Waited>
  /** `evalshaAndWait` with EVAL and the text of the script. */
  evalAndWait: RedisCaller['evalshaAndWait']
  /** On a cluster, the address of the master of a slot, as far as the client knows it. */
  nodeOfSlot?(slot: number): string | undefined
  /** Closes the connection and opens another one, if the client supports that. */
  reconnect?(): void
}

export interface Waited {
  readonly reply: unknown
  /** The number of replicas with the script's writes; 0 also if no replica was asked. */
  readonly confirmed: number
}

/** `Redis` or `Cluster` of ioredis, from version 5. */
export interface IoredisClient extends IoredisCluster {
  readonly isCluster: boolean
  readonly options: IoredisCluster['options'] &
    IoredisNumbers & { readonly redisOptions?: IoredisNumbers | undefined }
  eval(script: string, keyCount: number, ...keysAndArgs: string[]): Promise<unknown>
  pipeline(commands: unknown[][]): { exec(): Promise<[Error | null, unknown][] | null> }
  disconnect(reconnect?: boolean): void
}

interface IoredisNumbers {
  readonly stringNumbers?: boolean | undefined
}

/** A client, pool, cluster or Sentinel client of the package `redis`, from version 5. */
export interface NodeRedisClient {
  evalSha(sha1: string, options: NodeRedisScriptOptions): Promise<unknown>
  eval(script: string, options: NodeRedisScriptOptions): Promise<unknown>
  multi(): NodeRedisPipeline
  /** Returns the client with the given types for replies; without any, with the usual ones. */
  withTypeMapping(mapping: Readonly<Record<string, never>>): NodeRedisClient
  /** Only in clusters: the nodes of each slot. */
  readonly slots?: ReadonlyArray<NodeRedisSlot | undefined>
}

interface NodeRedisSlot {
  readonly master: { readonly address: string }
}

interface NodeRedisPipeline {
  eval(script: string, options: NodeRedisScriptOptions): NodeRedisPipeline
  evalSha(sha1: string, options: NodeRedisScriptOptions): NodeRedisPipeline
  wait(replicas: number, timeoutMs: number): NodeRedisPipeline
  execAsPipeline(): Promise<unknown>
}

/** A client or pool for one server. */
interface NodeRedisSingle {
  sendCommand(args: readonly string[]): Promise<unknown>
}

interface NodeRedisScriptOptions {
  keys: string[]
  arguments: string[]
}

/**
 * Any other client, as an object with two functions. `Redis` of @upstash/redis has them itself.
 *
 * Both resolve with the server's reply: integers as numbers, arrays as arrays, nil as null. They
 * reject if the call fails, with the server's message if there is one. They must not send a call
 * again whose outcome is unknown, because it could be charged twice.
 */
export interface ScriptClient {
  /** Runs `EVALSHA sha1 <number of keys> ...keys ...args`, on Cluster on the node of the keys. */
  evalsha(sha1: string, keys: string[], args: string[]): Promise<unknown>
  /** Runs `EVAL script <number of keys> ...keys ...args`, on Cluster on the node of the keys. */
  eval(script: string, keys: string[], args: string[]): Promise<unknown>
  /**
   * True if it is a client of a Redis Cluster. Then all keys of a call lie in the same slot.
   * Default: false.
   */
  readonly isCluster?: boolean
  /**
   * On Cluster: the master of a slot, by any name. Each master then has a circuit breaker of its
   * own. Without it, one breaker serves all.
   */
  nodeOfSlot?(slot: number): string | undefined
  /**
   * Sends commands in order on one connection, and resolves with their replies. It rejects if one
   * of them fails. Only `durability: 'replicated'` needs it.
   */
  pipelined?(commands: string[][]): Promise<unknown[]>
  /** Closes the connection and opens another one. Called if the server is not the master. */
  reconnect?(): void
}

export type RedisClient = IoredisClient | NodeRedisClient | ScriptClient

export function redisCaller(client: RedisClient): RedisCaller {
  if (isIoredis(client)) return ioredisCaller(client)
  if (isNodeRedis(client)) return nodeRedisCaller(client)
  if (isScriptClient(client)) return scriptCaller(client)
  const allowed =
    'a client of ioredis or of redis (node-redis), version 5 or later, ' +
    'or an object with evalsha(sha1, keys, args) and eval(script, keys, args)'
  throw invalid('invalid-option', { path: 'client', value: client, allowed })
}

function isIoredis(client: unknown): client is IoredisClient {
  if (!hasMethods(client, ['evalsha', 'eval', 'pipeline'])) return false
  // Clients over HTTP, such as @upstash/redis, have methods of these names with other arguments.
  const { options, isCluster } = client as Partial<IoredisClient>
  return typeof options === 'object' && options !== null && typeof isCluster === 'boolean'
}

function isNodeRedis(client: unknown): client is NodeRedisClient {
  return hasMethods(client, ['evalSha', 'eval', 'multi', 'withTypeMapping'])
}

function isScriptClient(client: unknown): client is ScriptClient {
  return hasMethods(client, ['evalsha', 'eval'])
}

/** Clusters and Sentinel clients find another server by themselves. */
function isNodeRedisSingle(client: unknown): client is NodeRedisSingle {
  if (hasMethods(client, ['nodeClient']) || hasMethods(client, ['getSentinelNode'])) return false
  return hasMethods(client, ['sendCommand'])
}

function hasMethods(client: unknown, names: readonly string[]): boolean {
  if (typeof client !== 'object' || client === null) return false
  return names.every((name) => typeof Reflect.get(client, name) === 'function')
}

function ioredisCaller(client: IoredisClient): RedisCaller {
  checkNumbers(client.options, 'client.options')
  checkNumbers(client.options.redisOptions, 'client.options.redisOptions')
  const masters = client.isCluster ? new IoredisMasters(client) : undefined
  const sender = evalshaSender(client)
  let isKnown = sender === undefined
  const evalsha: RedisCaller['evalsha'] = (sha1, keys, args) => {
    if (masters !== undefined) return masters.evalsha(sha1, keys, args)
    const reply = client.evalsha(sha1, keys.length, ...keys, ...args)
    if (!isKnown) isKnown = sender?.learn() === true
    return reply
  }
  const run: RedisCaller['eval'] = (script, keys, args) =>
    client.eval(script, keys.length, ...keys, ...args)
  const andWait =
    (command: 'eval' | 'evalsha'): RedisCaller['evalshaAndWait'] =>
    async (script, keys, args, replicas, timeoutMs) => {
      // As a pipeline it is either sent again as a whole or not at all. A WAIT alone on a new
      // connection would confirm what it knows nothing about.
      const call = [command, script, keys.length, ...keys, ...args]
      const replies = await client.pipeline([call, ['wait', replicas, timeoutMs]]).exec()
      for (const [error] of replies ?? []) if (error !== null) throw error
      return waited(replies?.map(([, reply]) => reply))
    }
  return {
    isCluster: client.isCluster,
    canWait: true,
    evalsha,
    sendEvalsha: sender?.send,
    eval: run,
    evalshaAndWait: followingRedirects(evalsha, andWait('evalsha')),
    evalAndWait: followingRedirects(run, andWait('eval')),
    ...(client.isCluster
      ? { nodeOfSlot: (slot) => client.slots?.[slot]?.[0] }
      : { reconnect: () => client.disconnect(true) }),
  }
}

/** With this option integers arrive as strings and cannot be distinguished from strings. */
function checkNumbers(options: IoredisNumbers | undefined, path: string): void {
  if (options?.stringNumbers !== true) return
  const place = { path: `${path}.stringNumbers`, value: true, allowed: 'false' }
  throw invalid('invalid-option', place)
}

function nodeRedisCaller(given: NodeRedisClient): RedisCaller {
  const client = given.withTypeMapping({})
  const evalsha: RedisCaller['evalsha'] = (sha1, keys, args) =>
    client.evalSha(sha1, scriptOptions(keys, args))
  const run: RedisCaller['eval'] = (script, keys, args) =>
    client.eval(script, scriptOptions(keys, args))
  // The commands of a pipeline are never spread over two connections.
  const andWait =
    (command: 'eval' | 'evalSha'): RedisCaller['evalshaAndWait'] =>
    async (script, keys, args, replicas, timeoutMs) => {
      const pipeline = client.multi()[command](script, scriptOptions(keys, args))
      return waited(await pipeline.wait(replicas, timeoutMs).execAsPipeline())
    }
  const isCluster = hasMethods(given, ['nodeClient'])
  return {
    isCluster,
    canWait: true,
    ...(isCluster ? { nodeOfSlot: (slot) => given.slots?.[slot]?.master.address } : {}),
    evalsha,
    eval: run,
    evalshaAndWait: followingRedirects(evalsha, andWait('evalSha')),
    evalAndWait: followingRedirects(run, andWait('eval')),
    // The server closes the connection, and the client reconnects as it always does.
    ...(isNodeRedisSingle(given) && {
      reconnect: () => void given.sendCommand(['QUIT']).catch(() => undefined),
    }),
  }
}

function scriptCaller(client: ScriptClient): RedisCaller {
  // With copies, as the client may write to the arrays that it declares.
  const evalsha: RedisCaller['evalsha'] = (sha1, keys, args) =>
    promised(client.evalsha(sha1, [...keys], [...args]))
  const run: RedisCaller['eval'] = (script, keys, args) =>
    promised(client.eval(script, [...keys], [...args]))
  const andWait =
    (command: 'EVAL' | 'EVALSHA'): RedisCaller['evalshaAndWait'] =>
    async (script, keys, args, replicas, timeoutMs) => {
      const call = [command, script, String(keys.length), ...keys, ...args]
      const wait = ['WAIT', String(replicas), String(timeoutMs)]
      return waited(await client.pipelined?.([call, wait]))
    }
  return {
    isCluster: client.isCluster === true,
    canWait: typeof client.pipelined === 'function',
    evalsha,
    eval: run,
    evalshaAndWait: followingRedirects(evalsha, andWait('EVALSHA')),
    evalAndWait: followingRedirects(run, andWait('EVAL')),
    ...(client.nodeOfSlot && { nodeOfSlot: (slot) => client.nodeOfSlot?.(slot) }),
    ...(client.reconnect && { reconnect: () => client.reconnect?.() }),
  }
}

/** Old clients have functions of these names that take a callback. */
function promised(reply: unknown): Promise<unknown> {
  if (reply instanceof Object && 'then' in reply) return Promise.resolve(reply)
  const message = 'evalsha and eval of the client must return a promise'
  throw new TidegateError('store-misconfigured', message)
}

/** Copies, as the client declares arrays that it may write to. */
function scriptOptions(keys: readonly string[], args: readonly string[]): NodeRedisScriptOptions {
  return { keys: [...keys], arguments: [...args] }
}

/**
 * Neither client follows a redirection within a pipeline. The script was refused then, so it runs
 * again by a plain call, whose redirection they follow. No replica has confirmed it.
 */
function followingRedirects(
  evalsha: RedisCaller['evalsha'],
  evalshaAndWait: RedisCaller['evalshaAndWait'],
): RedisCaller['evalshaAndWait'] {
  return async (sha1, keys, args, replicas, timeoutMs) => {
    try {
      return await evalshaAndWait(sha1, keys, args, replicas, timeoutMs)
    } catch (error) {
      if (!(error instanceof Error && /^(MOVED|ASK) /.test(error.message))) throw error
      return { reply: await evalsha(sha1, keys, args), confirmed: 0 }
    }
  }
}

function waited(replies: unknown): Waited {
  const [reply, confirmed] = Array.isArray(replies) ? replies : []
  return { reply, confirmed: typeof confirmed === 'number' ? confirmed : 0 }
}
