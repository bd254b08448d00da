/** From values to places: axes that count from zero, or in powers of ten. */

export interface Scale {
  at(value: number): number
  /** Where the axis has its marks. */
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

/** In powers of ten too, from the least value to the greatest, without room beside them. */
export function tightLogScale(values: readonly number[], from: number, to: number): Scale {
  const [least, greatest] = [Math.log10(Math.min(...values)), Math.log10(Math.max(...values))]
  const place = (value: number) => (Math.log10(value) - least) / (greatest - least || 1)
  return { at: (value) => from + (to - from) * place(value), ticks: [...new Set(values)] }
}

/** Of a text of 13 pixels; letters differ, and this is enough for most. */
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

/** The axis begins and ends at a power of ten; what is not above zero lies at its beginning. */
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
