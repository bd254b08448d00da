/** The address of the page: `#/limits?name=api`. Keys of customers are never in it. */

import { signal } from '@preact/signals'

export interface Place {
  readonly screen: string
  readonly query: URLSearchParams
}

export const place = signal<Place>(read())

export function startRouter(): void {
  addEventListener('hashchange', () => {
    place.value = read()
    document.querySelector('main')?.focus({ preventScroll: true })
    scrollTo(0, 0)
  })
}

export function go(screen: string, query: Readonly<Record<string, string>> = {}): void {
  location.hash = link(screen, query)
}

export function link(screen: string, query: Readonly<Record<string, string>> = {}): string {
  const text = new URLSearchParams(query).toString()
  return `#/${screen}${text === '' ? '' : `?${text}`}`
}

function read(): Place {
  const [path = '', query = ''] = location.hash.replace(/^#\/?/, '').split('?')
  return { screen: path === '' ? 'now' : path, query: new URLSearchParams(query) }
}
