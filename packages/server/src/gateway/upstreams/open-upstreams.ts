/** Opens the upstreams of a policy. */

import { isDeepStrictEqual } from 'node:util'
import type { UpstreamSection, UpstreamsSection } from '../../policy/schema/upstreams-section.ts'
import type { TargetTls } from './target.ts'
import type { Upstream } from './upstream.ts'

export interface OpenUpstream {
  readonly section: UpstreamSection
  /** The content of its files, which can change under the same names. */
  readonly tls: TargetTls | undefined
  readonly upstream: Upstream
}

export type ReadTls = (name: string, tls: UpstreamSection['tls']) => TargetTls | undefined

export type OpenNew = (
  name: string,
  section: UpstreamSection,
  tls: TargetTls | undefined,
) => Upstream

/** Upstreams that have not changed keep their connections and their health. */
export function openUpstreams(
  sections: UpstreamsSection,
  open: ReadonlyMap<string, OpenUpstream>,
  readTls: ReadTls,
  openNew: OpenNew,
): Map<string, OpenUpstream> {
  // Files are read first: an unreadable file must be found before anything is opened.
  const entries = Object.entries(sections).map(
    ([name, section]) => [name, section, readTls(name, section.tls)] as const,
  )
  return new Map(
    entries.map(([name, section, tls]) => {
      const known = open.get(name)
      const isSame = isDeepStrictEqual([known?.section, known?.tls], [section, tls])
      if (known !== undefined && isSame) return [name, known]
      return [name, { section, tls, upstream: openNew(name, section, tls) }]
    }),
  )
}
