/**
 * The shapes of all drawings in the documents, as SVG text. Coordinates are rounded to tenths, so
 * that the same data always gives the same text.
 */

export interface Panel {
  readonly left: number
  readonly right: number
  readonly top: number
  readonly bottom: number
}

/** A colour, or a class of the drawing's own style sheet. */
export type Paint = string | { readonly class: string }

export interface TextStyle {
  readonly size?: number
  readonly weight?: number
  readonly fill?: Paint
  readonly anchor?: 'middle' | 'end'
}

export const WIDTH = 860

export const INK = '#1f2933'

export function svg(
  height: number,
  title: string,
  about: string,
  parts: readonly string[],
): string {
  const size = `width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}"`
  const font = `system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif`
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" ${size} role="img" font-family="${font}">`,
    `<title>${escaped(title)}</title>`,
    `<desc>${escaped(about)}</desc>`,
    ...parts,
    '</svg>',
    '',
  ].join('\n')
}

export function text(x: number, y: number, content: string, style: TextStyle = {}): string {
  const { size = 13, weight, fill = INK, anchor } = style
  const bold = weight === undefined ? '' : ` font-weight="${weight}"`
  const align = anchor === undefined ? '' : ` text-anchor="${anchor}"`
  const place = `x="${tenths(x)}" y="${tenths(y)}"`
  const painted = attribute('fill', fill)
  return `<text ${place} font-size="${size}"${painted}${bold}${align}>${escaped(content)}</text>`
}

export function line(
  fromX: number,
  fromY: number,
  toX: number,
  toY: number,
  stroke: Paint,
  dashes?: string,
  width = 1,
): string {
  const dashed = dashes === undefined ? '' : ` stroke-dasharray="${dashes}"`
  const path = `M${tenths(fromX)} ${tenths(fromY)}L${tenths(toX)} ${tenths(toY)}`
  return `<path d="${path}"${attribute('stroke', stroke)} stroke-width="${width}"${dashed}/>`
}

export function circle(x: number, y: number, radius: number, fill: Paint): string {
  const place = `cx="${tenths(x)}" cy="${tenths(y)}" r="${tenths(radius)}"`
  return `<circle ${place}${attribute('fill', fill)}/>`
}

export function cross(x: number, y: number, arm: number, stroke: Paint): string {
  const [left, right, top, bottom] = [x - arm, x + arm, y - arm, y + arm].map(tenths)
  const path = `M${left} ${top}L${right} ${bottom}M${left} ${bottom}L${right} ${top}`
  return `<path d="${path}"${attribute('stroke', stroke)} stroke-width="1.6"/>`
}

export function rectangle({ left, right, top, bottom }: Panel, fill: Paint, radius = 0): string {
  const [x, y, width, height] = [left, top, right - left, bottom - top].map(tenths)
  const place = `x="${x}" y="${y}" width="${width}" height="${height}" rx="${radius}"`
  return `<rect ${place}${attribute('fill', fill)}/>`
}

export function tenths(value: number): number {
  return Math.round(value * 10) / 10
}

export function escaped(content: string): string {
  return content.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}

function attribute(name: 'fill' | 'stroke', paint: Paint): string {
  return typeof paint === 'string' ? ` ${name}="${paint}"` : ` class="${paint.class}"`
}
