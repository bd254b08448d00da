/** Light or dark: that of the system, unless the operator has chosen. */

import { signal } from '@preact/signals'

export type Choice = 'system' | 'light' | 'dark'

const KEY = 'tidegate-theme'

const dark = matchMedia('(prefers-color-scheme: dark)')

export const choice = signal<Choice>(stored())
export const theme = signal<'light' | 'dark'>(shown())

export function startTheme(): void {
  dark.addEventListener('change', apply)
  apply()
}

export function choose(next: Choice): void {
  choice.value = next
  try {
    localStorage.setItem(KEY, next)
  } catch {
    // A browser may refuse to keep it; the choice holds for this page.
  }
  apply()
}

function apply(): void {
  document.documentElement.dataset.theme = shown()
  theme.value = shown()
}

function shown(): 'light' | 'dark' {
  if (choice.value !== 'system') return choice.value
  return dark.matches ? 'dark' : 'light'
}

function stored(): Choice {
  try {
    const found = localStorage.getItem(KEY)
    return found === 'light' || found === 'dark' ? found : 'system'
  } catch {
    return 'system'
  }
}
