/** A difference of two texts, line by line, with signs beside the colours. */

import { plain } from '../text.ts'

const LINES_MAX = 2_000

export function Diff({ text }: { text: string }) {
  if (text.trim() === '') return <p class="empty">There is no difference.</p>
  const lines = text.split('\n')
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls needs the keyboard.
    <pre class="diff" tabIndex={0}>
      {lines.slice(0, LINES_MAX).map((line, at) => (
        <span key={at} class={classOf(line)}>
          {plain(line)}
          {'\n'}
        </span>
      ))}
      {lines.length > LINES_MAX && <span>… {lines.length - LINES_MAX} more lines</span>}
    </pre>
  )
}

function classOf(line: string): string {
  if (/^(\+\+\+|---|@@)/.test(line)) return 'head'
  if (line.startsWith('+')) return 'added'
  return line.startsWith('-') ? 'removed' : ''
}
