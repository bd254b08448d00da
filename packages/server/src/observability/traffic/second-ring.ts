/** Numbers of the last seconds in columns of fixed length: the newest replaces the oldest. */

export class SecondRing<Field extends string> {
  readonly #size: number
  readonly #fields: readonly Field[]
  readonly #columns: ReadonlyMap<Field, Float64Array>
  #count = 0

  constructor(fields: readonly Field[], size: number) {
    this.#size = size
    this.#fields = fields
    this.#columns = new Map(fields.map((field) => [field, new Float64Array(size)]))
  }

  add(row: Readonly<Record<Field, number>>): void {
    const at = this.#count % this.#size
    for (const field of this.#fields) {
      const column = this.#columns.get(field)
      if (column !== undefined) column[at] = row[field]
    }
    this.#count += 1
  }

  /** The values of a column, the oldest first. */
  column(field: Field): number[] {
    const column = this.#columns.get(field) ?? new Float64Array(0)
    const length = Math.min(this.#count, this.#size)
    const first = this.#count - length
    return Array.from({ length }, (_, at) => column[(first + at) % this.#size] as number)
  }

  sum(field: Field): number {
    let sum = 0
    for (const value of this.#columns.get(field) ?? []) sum += value
    return sum
  }
}
