/** Reads requests from bytes, one character each, as strictly as possible. */

export interface RecordedRequest {
  readonly method: string
  /** Exactly as in the request line. */
  readonly target: string
  /** Names in lower case, in their order of arrival. */
  readonly fields: readonly (readonly [name: string, value: string])[]
  readonly body: string
}

type Head = Omit<RecordedRequest, 'body'>

const END_OF_HEAD = '\r\n\r\n'

export class RequestParser {
  #rest = ''
  #ambiguities: string[] = []
  /** The head of a request whose body is not complete yet. */
  #head: Head | undefined
  #body = ''

  read(text: string): RecordedRequest[] {
    this.#rest += text
    const requests: RecordedRequest[] = []
    for (;;) {
      this.#head ??= this.#takeHead()
      const head = this.#head
      if (head === undefined || !this.#takeBody(head)) return requests
      requests.push({ ...head, body: this.#body })
      this.#head = undefined
      this.#body = ''
    }
  }

  takeAmbiguities(): string[] {
    const found = this.#ambiguities
    this.#ambiguities = []
    return found
  }

  #takeHead(): Head | undefined {
    const endAt = this.#rest.indexOf(END_OF_HEAD)
    if (endAt === -1) return undefined
    const text = this.#rest.slice(0, endAt)
    this.#rest = this.#rest.slice(endAt + END_OF_HEAD.length)
    const [line = '', ...lines] = text.split('\r\n')
    const [method = '', target = ''] = line.split(' ')
    const fields = lines.map((field) => {
      const colonAt = field.indexOf(':')
      return [field.slice(0, colonAt).toLowerCase(), field.slice(colonAt + 1).trim()] as const
    })
    const head = { method, target, fields }
    this.#ambiguities.push(...ambiguitiesOf(head, text))
    return head
  }

  /** Returns whether the body is complete. */
  #takeBody(head: Head): boolean {
    if (valuesOf(head, 'transfer-encoding').length > 0) return this.#takeChunks()
    const length = Number(valuesOf(head, 'content-length')[0] ?? 0)
    if (this.#rest.length < length) return false
    this.#body = this.#rest.slice(0, length)
    this.#rest = this.#rest.slice(length)
    return true
  }

  #takeChunks(): boolean {
    for (;;) {
      const lineEndAt = this.#rest.indexOf('\r\n')
      if (lineEndAt === -1) return false
      const size = Number.parseInt(this.#rest.slice(0, lineEndAt), 16)
      const start = lineEndAt + 2
      if (this.#rest.length < start + size + 2) return false
      this.#body += this.#rest.slice(start, start + size)
      this.#rest = this.#rest.slice(start + size + 2)
      if (size === 0) return true
    }
  }
}

/** All values under a name. */
export function valuesOf({ fields }: Pick<RecordedRequest, 'fields'>, name: string): string[] {
  return fields.filter(([field]) => field === name).map(([, value]) => value)
}

/** Ambiguities in the framing: https://www.rfc-editor.org/rfc/rfc9112#section-6.3 */
function ambiguitiesOf(head: Head, text: string): string[] {
  const found: string[] = []
  const count = (name: string) => valuesOf(head, name).length
  if (!/^[A-Z]+ [!-~]+ HTTP\/1\.1$/.test(text.split('\r\n')[0] ?? '')) found.push('request line')
  if (/[\r\n]/.test(text.replaceAll('\r\n', ''))) found.push('a bare CR or LF')
  if (head.fields.some(([name]) => !/^[!#$%&'*+.^_`|~0-9a-z-]+$/.test(name))) found.push('a name')
  if (count('host') !== 1) found.push(`${count('host')} hosts`)
  if (count('content-length') + count('transfer-encoding') > 1) found.push('several lengths')
  if (valuesOf(head, 'content-length').some((value) => !/^\d+$/.test(value))) found.push('a length')
  if (valuesOf(head, 'transfer-encoding').some((value) => value !== 'chunked')) found.push('coding')
  return found.map((what) => `${what} in ${JSON.stringify(text)}`)
}
