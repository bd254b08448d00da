/**
 * A command of ioredis that only runs scripts by their digest. `client.evalsha` copies arguments
 * several times, checks them and makes promises, which takes a microsecond per call. This command
 * writes its bytes from prepared parts, and calls back when its reply is read.
 *
 * The client treats it as its own, which inherits everything else from the client's class: it is in
 * the queue of commands, and is rejected or sent again like any other. If an option or the state of
 * the client asks for more than that, nothing is sent, and the caller uses the client's method.
 */

import { builtinModule } from '../../runtime.ts'

/**
 * Sends `EVALSHA sha1 <number of keys> ...keys ...args`. Calls one of the functions once, in the
 * order of the replies, those of the client's own method included. Returns false if the client does
 * not allow it now: then nothing was sent and neither is called.
 */
export type SendEvalsha = (
  sha1: string,
  keys: readonly string[],
  args: readonly string[],
  onReply: (reply: unknown) => void,
  onError: (error: unknown) => void,
) => boolean

/** A client whose commands may be sent in this way. */
export interface EvalshaSender {
  readonly send: SendEvalsha
  /** Must be called behind each call of the client's own `evalsha`, until it returns true. */
  learn(): boolean
}

/** The parts of a client for a single server that are used here. */
interface CommandClient {
  readonly isCluster: boolean
  readonly options: Readonly<Record<string, unknown>>
  readonly status?: string
  readonly stream?: { readonly writable?: boolean } | null
  readonly commandQueue?: { peekBack?(): { readonly command?: object } | undefined }
  sendCommand(command: object): unknown
}

/** What a command of the client inherits. */
interface CommandPrototype {
  transformReply(reply: unknown): unknown
}

interface TracingChannel {
  readonly hasSubscribers?: boolean
}

/** Options that change how a command is written or ends. */
const OTHER_WAYS = [
  'commandTimeout',
  'enableAutoPipelining',
  'keyPrefix',
  'showFriendlyErrorStack',
] as const

/**
 * All fields and methods of a command of ioredis 5 and 6. A version with others may need them of a
 * command, which would not be noticed before a reply is handled. Its own method is used then.
 */
const KNOWN_PARTS: ReadonlySet<string> = new Set([
  ...['name', 'args', 'callback', 'errorStack', 'inTransaction', 'isResolved', 'isSettled'],
  ...['isTraced', 'promise', 'protocol', 'reject', 'replyEncoding', 'replyMapping', 'resolve'],
  ...['transformed', 'constructor', 'getKeys', 'getSlot', 'initPromise', 'setReplyContext'],
  ...['setTimeout', 'setBlockingTimeout', 'extractBlockingTimeout', 'stringifyArguments'],
  ...['toWritable', 'transformReply', '_clearTimers', '_convertValue', '_iterateKeys'],
])

/** Undefined if the client is not a plain client of ioredis for one server. */
export function evalshaSender(client: object): EvalshaSender | undefined {
  if (!isPlain(client)) return undefined
  const traces = tracingChannel()
  let EvalshaCommand: ReturnType<typeof commandClass> | undefined
  return {
    learn() {
      const command = lastCommand(client)
      if (command === undefined) return false
      const prototype = knownPrototype(command)
      if (prototype !== undefined) EvalshaCommand ??= commandClass(prototype)
      return true
    },
    send(sha1, keys, args, onReply, onError) {
      if (EvalshaCommand === undefined) return false
      if (client.status !== 'ready' || client.stream?.writable !== true) return false
      if (traces !== undefined && traces.hasSubscribers !== false) return false
      client.sendCommand(new EvalshaCommand(sha1, keys, args, onReply, onError))
      return true
    },
  }
}

function isPlain(client: object): client is CommandClient {
  const { isCluster, options, sendCommand } = client as Partial<CommandClient>
  if (isCluster !== false || typeof sendCommand !== 'function') return false
  if (Object.hasOwn(client, 'evalsha') || Object.hasOwn(client, 'sendCommand')) return false
  return OTHER_WAYS.every((name) => !options?.[name])
}

/** The command that the client has just sent, if it runs a script. */
function lastCommand({ commandQueue }: CommandClient): object | undefined {
  const command = commandQueue?.peekBack?.()?.command
  return command !== undefined && Reflect.get(command, 'name') === 'evalsha' ? command : undefined
}

/** The class of commands is not exported. Undefined if it is not one that is known here. */
function knownPrototype(command: object): CommandPrototype | undefined {
  const prototype: CommandPrototype | null = Object.getPrototypeOf(command)
  if (typeof prototype?.transformReply !== 'function') return undefined
  const parts = [...Object.keys(command), ...Object.getOwnPropertyNames(prototype)]
  return parts.every((name) => KNOWN_PARTS.has(name)) ? prototype : undefined
}

/** Traces need the client's own promise. */
function tracingChannel(): TracingChannel | undefined {
  const diagnostics = builtinModule('node:diagnostics_channel') as
    | { tracingChannel?(name: string): TracingChannel }
    | undefined
  return diagnostics?.tracingChannel?.('ioredis:command')
}

function commandClass(prototype: CommandPrototype) {
  const tailOf = tails()

  class EvalshaCommand {
    readonly name = 'evalsha'
    readonly replyEncoding = 'utf8'
    readonly inTransaction = false
    readonly transformed = true
    /** Nothing subscribes to traces. */
    readonly isTraced = true
    declare readonly transformReply: CommandPrototype['transformReply']
    readonly #sha1: string
    readonly #keys: readonly string[]
    readonly #args: readonly string[]
    #promise: Settled | undefined
    /** Functions of the object, because tools that trace clients replace them. */
    resolve: (reply: unknown) => void
    reject: (error: unknown) => void

    constructor(
      sha1: string,
      keys: readonly string[],
      args: readonly string[],
      onReply: (reply: unknown) => void,
      onError: (error: unknown) => void,
    ) {
      this.#sha1 = sha1
      this.#keys = keys
      this.#args = args
      this.resolve = (reply) => {
        const value = isOfNumbers(reply) ? reply : this.transformReply(reply)
        // As late as the continuation of a promise.
        queueMicrotask(() => onReply(value))
        this.#promise?.resolve(value)
      }
      this.reject = (error) => {
        queueMicrotask(() => onError(error))
        this.#promise?.reject(error)
      }
    }

    /** For tools that replace `sendCommand`. The client reads it after it has written the bytes. */
    get promise(): Promise<unknown> {
      this.#promise ??= newPromise()
      return this.#promise.promise
    }

    /** For the messages of errors. */
    get args(): string[] {
      return [this.#sha1, String(this.#keys.length), ...this.#keys, ...this.#args]
    }

    setReplyContext(): void {}

    toWritable(): string {
      const keys = this.#keys
      const count = keys.length + this.#args.length + 3
      let text = `*${count}\r\n$7\r\nevalsha\r\n$40\r\n${this.#sha1}\r\n`
      text += bulk(String(keys.length))
      for (const key of keys) text += bulk(key)
      return text + tailOf(this.#args)
    }
  }
  Object.setPrototypeOf(EvalshaCommand.prototype, prototype)
  return EvalshaCommand
}

/** Returns a function that writes arguments. It keeps the last, which most commands use again. */
function tails(): (args: readonly string[]) => string {
  let lastArgs: readonly string[] | undefined
  let lastTail = ''
  return (args) => {
    if (args !== lastArgs) {
      lastTail = args.map(bulk).join('')
      lastArgs = args
    }
    return lastTail
  }
}

type Settled = ReturnType<typeof Promise.withResolvers<unknown>>

function newPromise(): Settled {
  const made = Promise.withResolvers<unknown>()
  made.promise.catch(() => undefined)
  return made
}

function bulk(text: string): string {
  return `$${Buffer.byteLength(text)}\r\n${text}\r\n`
}

/** Strings arrive as bytes, and only they need the client's conversion. */
function isOfNumbers(reply: unknown): boolean {
  if (typeof reply === 'number') return true
  return Array.isArray(reply) && reply.every((one) => typeof one === 'number')
}
