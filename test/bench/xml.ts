/** Checks that an SVG text is well-formed: tags nest, special characters are escaped. */

export function complaintsAboutXml(text: string): string[] {
  const complaints: string[] = []
  const open: string[] = []
  const tag = /<(\/?)([a-z]+)((?: [a-zA-Z:-]+="[^"<]*")*)(\/?)>/g
  let end = 0
  for (const match of text.matchAll(tag)) {
    const [whole, isEnd, name = '', , isEmpty] = match
    complaints.push(...loose(text.slice(end, match.index)))
    end = match.index + whole.length
    if (isEnd === '/') {
      const opened = open.pop()
      if (opened !== name) complaints.push(`${opened} is ended by ${name}`)
    } else if (isEmpty !== '/') {
      open.push(name)
    }
  }
  complaints.push(...loose(text.slice(end)), ...open.map((name) => `${name} is not ended`))
  return complaints
}

function loose(between: string): string[] {
  return between.match(/<|&(?!(?:amp|lt|gt);)/g)?.map((mark) => `a loose ${mark}`) ?? []
}
