/**
 * The entry point `tidegate/regions`: protocols by which several regions share limits. They have no
 * clock and do no I/O; the server of a region runs them.
 */

export {
  type BoundsOptions,
  type RegionBounds,
  type RegionMode,
  regionBounds,
  regionModes,
} from './bounds.ts'
export type { Bases } from './epochs.ts'
export {
  compareStamps,
  nextStamp,
  parseStamp,
  type ReceivedStamp,
  receiveStamp,
  SKEW_MS_MAX,
  type Stamp,
  stampText,
} from './hlc.ts'
export type { PartitionTimes } from './loans.ts'
export {
  decodePartition,
  encodePartition,
  type PartitionAnswer,
  type PartitionAsk,
  type PartitionMessage,
  type PartitionStatus,
} from './partition-messages.ts'
export {
  PartitionRegion,
  type PartitionSend,
  type PartitionSettings,
} from './partition-region.ts'
export { messageTypes, type RegionLink, type RegionTimes } from './region-link.ts'
export {
  decodeShared,
  encodeShared,
  type SharedMessage,
  type WireRow,
} from './shared-messages.ts'
export { SharedRegion } from './shared-region.ts'
export type { Ack, SharedCosts, SharedEntry, SharedRow } from './shared-row.ts'
export {
  type SharedAdjustment,
  type SharedCounter,
  type SharedEffects,
  type SharedSaved,
  type SharedSettings,
  sharedCounter,
} from './shared-settings.ts'
export { checkShares, lastsMs, limitPart, type RegionShare } from './shares.ts'
