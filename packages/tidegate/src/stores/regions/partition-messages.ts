/**
 * Messages of the mode `partition`: each region reports its demand to the others, asks for parts,
 * and answers. A request has a number, so that the borrower knows when it sent the request that an
 * answer is for. A renewal is the request again.
 */

import { ByteReader, ByteWriter } from './bytes.ts'
import { PARTS_MAX } from './shares.ts'

export interface PartitionStatus {
  readonly kind: 'status'
  /** The incarnation of the sender's store, and that of the receiver as the sender knows it. */
  readonly incarnation: string
  readonly seen: string
  /** The epoch that the sender uses and, if it has confirmed it, true. */
  readonly epoch: number
  readonly isConfirmed: boolean
  /** Units asked for per minute, floods aside. */
  readonly demand: number
  readonly share: number
  /** Loans that the sender has of the receiver. */
  readonly borrowed: readonly { readonly id: number; readonly parts: number }[]
}

export interface PartitionAsk {
  readonly kind: 'ask'
  readonly id: number
  readonly sequence: number
  readonly parts: number
  /** True if the parts are given back: they are no longer used, and units no longer matter. */
  readonly isReturned: boolean
}

export const answerStates = ['draining', 'granted', 'ended'] as const

export interface PartitionAnswer {
  readonly kind: 'answer'
  readonly id: number
  readonly sequence: number
  readonly state: (typeof answerStates)[number]
  readonly parts: number
  readonly ttlMs: number
}

export type PartitionMessage = PartitionStatus | PartitionAsk | PartitionAnswer

/** Loans of a region from another at a time. More are not asked for. */
export const LOANS_MAX = 16

const WHOLE_MAX = Number.MAX_SAFE_INTEGER
const TTL_MS_MAX = 86_400_000

export function encodePartition(message: PartitionMessage): Uint8Array {
  const writer = new ByteWriter()
  switch (message.kind) {
    case 'status':
      writer.byte(0)
      writer.stamp(message.incarnation)
      writer.stamp(message.seen)
      writer.whole(message.epoch)
      writer.byte(message.isConfirmed ? 1 : 0)
      writer.whole(message.demand)
      writer.whole(message.share)
      writer.whole(message.borrowed.length)
      for (const { id, parts } of message.borrowed) {
        writer.whole(id)
        writer.whole(parts)
      }
      break
    case 'ask':
      writer.byte(1)
      writer.whole(message.id)
      writer.whole(message.sequence)
      writer.whole(message.parts)
      writer.byte(message.isReturned ? 1 : 0)
      break
    case 'answer':
      writer.byte(2)
      writer.whole(message.id)
      writer.whole(message.sequence)
      writer.byte(answerStates.indexOf(message.state))
      writer.whole(message.parts)
      writer.whole(message.ttlMs)
      break
  }
  return writer.finish()
}

/** Throws an error that names the wrong field. */
export function decodePartition(bytes: Uint8Array): PartitionMessage {
  const reader = new ByteReader(bytes, 'partition')
  const kind = reader.whole('kind', 2)
  const message =
    kind === 0 ? readStatus(reader) : kind === 1 ? readAsk(reader) : readAnswer(reader)
  reader.end()
  return message
}

function readStatus(reader: ByteReader): PartitionStatus {
  const incarnation = reader.stamp('incarnation')
  const seen = reader.stamp('seen')
  const epoch = reader.whole('epoch', WHOLE_MAX)
  const isConfirmed = reader.whole('isConfirmed', 1) === 1
  const demand = reader.whole('demand', WHOLE_MAX)
  const share = reader.whole('share', PARTS_MAX)
  const borrowed: { id: number; parts: number }[] = []
  const count = reader.whole('borrowed', LOANS_MAX)
  for (let at = 0; at < count; at++) {
    const id = reader.whole('borrowed.id', WHOLE_MAX)
    borrowed.push({ id, parts: reader.whole('borrowed.parts', PARTS_MAX) })
  }
  return { kind: 'status', incarnation, seen, epoch, isConfirmed, demand, share, borrowed }
}

function readAsk(reader: ByteReader): PartitionAsk {
  return {
    kind: 'ask',
    id: reader.whole('id', WHOLE_MAX),
    sequence: reader.whole('sequence', WHOLE_MAX),
    parts: reader.whole('parts', PARTS_MAX),
    isReturned: reader.whole('isReturned', 1) === 1,
  }
}

function readAnswer(reader: ByteReader): PartitionAnswer {
  return {
    kind: 'answer',
    id: reader.whole('id', WHOLE_MAX),
    sequence: reader.whole('sequence', WHOLE_MAX),
    state: answerStates[reader.whole('state', answerStates.length - 1)] as 'draining',
    parts: reader.whole('parts', PARTS_MAX),
    ttlMs: reader.whole('ttlMs', TTL_MS_MAX),
  }
}
