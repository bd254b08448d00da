/** A configuration that is refused: the file and the problem, in the words of the reference. */
export class RlsConfigError extends Error {
  override readonly name = 'RlsConfigError'
  readonly file: string
  /** The message without the file. */
  readonly text: string

  constructor(file: string, text: string) {
    super(`${file}: ${text}`)
    this.file = file
    this.text = text
  }
}
