/** The slot of a key on Redis Cluster: CRC-16 (XMODEM) of it, or of its hash tag. */

export const SLOTS = 16_384

const table = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8
  for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1
  return crc
})

/** Only for keys of ours, which are ASCII and whose braces are a tag of ours. */
export function slotOf(key: string): number {
  const open = key.indexOf('{')
  const from = open + 1
  const to = open < 0 ? key.length : key.indexOf('}', from)
  let crc = 0
  for (let at = from; at < to; at++) {
    const index = ((crc >> 8) ^ key.charCodeAt(at)) & 0xff
    crc = ((crc << 8) & 0xffff) ^ (table[index] as number)
  }
  return crc % SLOTS
}
