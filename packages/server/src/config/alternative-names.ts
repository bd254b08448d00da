/**
 * The alternative names of a certificate, from the text that Node.js makes of them, such as
 * `DNS:a.example, URI:spiffe://b`: https://www.rfc-editor.org/rfc/rfc5280#section-4.2.1.6
 *
 * Node.js writes a name with a comma or a quote as a JSON string, because such a name could pass
 * for several. Names that need it are left out: nothing is named that way.
 */

const NAME = /([A-Za-z ]+):("(?:[^"\\]|\\.)*"|[^,"]*)(?:, |$)/y

export function alternativeNames(text: string): readonly string[] {
  const names: string[] = []
  NAME.lastIndex = 0
  for (let found = NAME.exec(text); found !== null && found[0] !== ''; found = NAME.exec(text)) {
    const [, , name = ''] = found
    if (!name.startsWith('"') && name !== '') names.push(name)
  }
  return names
}
