/** The data of a chart, and the shapes that a drawing of it consists of. */

export interface Chart {
  /** The file is docs/images/bench-NAME.svg. */
  readonly name: string
  readonly title: string
  readonly kind: 'bars' | 'lines'
  readonly xLabel: string
  readonly yLabel: string
  readonly isLogX?: boolean
  readonly isLogY?: boolean
  readonly series: readonly {
    readonly name: string
    readonly isOurs: boolean
    /** For bars `x` is a category. */
    readonly points: readonly { readonly x: number | string; readonly y: number }[]
  }[]
}

export interface Shapes {
  readonly height: number
  readonly shapes: readonly string[]
}
