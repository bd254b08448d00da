/** Maps values to coordinates: axes from zero, or in powers of ten. */

export interface Scale {
  at(value: number): number
  /** The values of the ticks. */
  readonly ticks: readonly number[]
}

const TICKS_ABOUT = 5

export function scaleOf(
  values: readonly number[],
  isLog: boolean,
  [from, to]: readonly [number, number],
): Scale {
  return isLog ? logScale(values, from, to) : linearScale(values, from, to)
}

/** A logarithmic scale from the least value to the greatest, without margins. */
export function tightLogScale(values: readonly number[], from: number, to: number): Scale {
  const [least, greatest] = [Math.log10(Math.min(...values)), Math.log10(Math.max(...values))]
  const place = (value: number) => (Math.log10(value) - least) / (greatest - least || 1)
  return { at: (value) => from + (to - from) * place(value), ticks: [...new Set(values)] }
}

/** The approximate width of a text of 13 pixels. */
export function widthOf(text: string, isBold = false): number {
  return text.length * (isBold ? 8 : 7)
}

function linearScale(values: readonly number[], from: number, to: number): Scale {
  const greatest = Math.max(...values, 0) || 1
  const step = niceStep(greatest / TICKS_ABOUT)
  const count = Math.ceil(greatest / step - 1e-9)
  const ticks = Array.from({ length: count + 1 }, (_, at) => at * step)
  return { at: (value) => from + ((to - from) * value) / greatest, ticks }
}

/** The axis begins and ends at a power of ten; values of zero or less lie at its beginning. */
function logScale(values: readonly number[], from: number, to: number): Scale {
  const positive = values.filter((value) => value > 0)
  const first = Math.floor(Math.log10(Math.min(...positive)) + 1e-9)
  const last = Math.max(Math.ceil(Math.log10(Math.max(...positive)) - 1e-9), first + 1)
  const place = (value: number) => (Math.log10(value) - first) / (last - first)
  const ticks = Array.from({ length: last - first + 1 }, (_, at) => 10 ** (first + at))
  return { at: (value) => (value > 0 ? from + (to - from) * place(value) : from), ticks }
}

/** 1, 2 or 5 times a power of ten. */
function niceStep(about: number): number {
  const power = 10 ** Math.floor(Math.log10(about))
  const factor = [1, 2, 5, 10].find((each) => each * power >= about * 0.999) ?? 10
  return factor * power
}
