/** The store of operators' changes for a service, and its policy from there. */

import { hostname } from 'node:os'
import type { LoadedFiles } from '../config/file-source.ts'
import type { KeyValueStore } from '../control/key-value.ts'
import { NodeReporter, reportId } from '../control/nodes/node-report.ts'
import { ControlSource } from '../control/source/control-source.ts'
import type { RemoteDocument } from '../control/source/document-follower.ts'
import { RememberingStore } from '../control/source/remembering-store.ts'
import type { NodePlace } from '../control/versions/version-record.ts'
import type { Emit } from '../observability/events.ts'

export interface ControlPlaneOptions<T> {
  readonly store: KeyValueStore
  readonly place: NodePlace
  /** The absolute path of the local file. */
  readonly path: string
  readonly stateFile: string | undefined
  /** Resolves when a document can be loaded. */
  readonly canLoad?: Promise<unknown> | undefined
  readonly program: string
  /** True if other processes of this machine have the same name. */
  readonly isWorker?: boolean | undefined
  load(document: RemoteDocument | undefined, live: T | undefined): Promise<LoadedFiles<T>>
}

/** A configuration that follows a store, and the reports of this node. */
export class ControlPlane<T> {
  /** With a state file, it has the overrides, the blocks and the switch also without etcd. */
  readonly store: KeyValueStore
  readonly source: ControlSource<T>
  readonly place: NodePlace
  /** The name under which this process reports. */
  readonly reportId: string
  readonly #reporter: NodeReporter
  #emit: Emit | undefined
  /** Before the service has an emitter, such as while the first policy is read. */
  readonly #early: Parameters<Emit>[0][] = []

  constructor({ program, isWorker = false, ...options }: ControlPlaneOptions<T>) {
    const { store, place, stateFile } = options
    const note = (text: string) => this.#report({ type: 'control-note', text })
    this.store =
      stateFile === undefined ? store : new RememberingStore(store, `${stateFile}.live`, note)
    this.place = place
    this.source = new ControlSource<T>({
      ...options,
      events: {
        onContact: (isReachable, problem = '') => {
          const { description: place } = store
          this.#report({ type: 'control-contact', place, isReachable, problem })
        },
        onNote: note,
      },
    })
    const status = () => this.source.status()
    const worker = isWorker ? { process: String(process.pid) } : undefined
    this.reportId = reportId(place.node, worker?.process)
    this.#reporter = new NodeReporter({ store, ...place, ...worker, program, status })
  }

  /** Reports events from now on, and those since the start. */
  start(emit: Emit, versionId: string): void {
    this.#emit = emit
    for (const event of this.#early.splice(0)) emit(event)
    this.applied(versionId)
  }

  /** `id` is that of the version in its source, such as `v42-9f86d081884c`. */
  applied(id: string): void {
    this.#reporter.applied(Number(/^v(\d+)-/.exec(id)?.[1] ?? 0))
  }

  refused(problems: readonly string[]): void {
    this.#reporter.refused(problems)
  }

  /** For `/status`. */
  status(): object {
    const { published, live, isReachable, revision } = this.source.status()
    const { node, region } = this.place
    return { connected: isReachable, node, region, published, live, revision: String(revision) }
  }

  async close(): Promise<void> {
    this.source.close()
    await this.source.settle()
    // The store ends a report that is under way, because etcd may not respond.
    await Promise.all([this.#reporter.close(), this.store.close()])
  }

  #report(event: Parameters<Emit>[0]): void {
    if (this.#emit === undefined) this.#early.push(event)
    else this.#emit(event)
  }
}

export function nodeName(section: { readonly node?: string | undefined }): string {
  return section.node ?? `${hostname().replaceAll(/[^A-Za-z0-9_.-]/g, '-')}-${process.pid}`
}
