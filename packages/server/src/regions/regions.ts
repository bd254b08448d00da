/**
 * A region at work: the store with shared limits in front of the region's own, the connections to
 * the other regions, and the listener for them.
 */

import type { Store } from 'tidegate'
import type { ReadSecret } from '../config/secrets.ts'
import { readTlsFile } from '../config/tls-files.ts'
import type { PolicyDocument } from '../policy/schema/policy-schema.ts'
import type { RegionsSection } from '../policy/schema/regions/regions-section.ts'
import type { HeldUnits } from './escrow/escrow-pools.ts'
import type { ForgottenRegion } from './forgotten-regions.ts'
import { frameTypes } from './link/frames.ts'
import { LinkClient, type PeerState } from './link/link-client.ts'
import {
  type LinkServer,
  type RefusedReason,
  refusedReasons,
  startLinkServer,
} from './link/link-server.ts'
import type { Peer } from './peer/peer.ts'
import { peerService } from './peer/peer-service.ts'
import { PeerStore } from './peer/peer-store.ts'
import type { RegionCount } from './region-counts.ts'
import { regionLimits } from './region-limits.ts'
import { RegionStore } from './region-store.ts'
import { type ExchangeAccess, SharedExchange, type SharedState } from './shared/shared-exchange.ts'
import { createTopology, type Topology } from './topology.ts'

export interface RegionsOptions {
  readonly document: PolicyDocument
  /** The region's own store, with its front. */
  readonly store: Store
  /** Opens a connection of its own to the region's Redis, for the mode `shared`. */
  openExchange(): ExchangeAccess
  readonly readSecret: ReadSecret
  readonly folder: string
  /** Called when another region is reached, or no longer. */
  onPeer(region: string, isUp: boolean, problem: string | undefined): void
}

export interface RegionsState {
  readonly self: string
  /** Regions that operators have given up. */
  readonly forgotten: readonly string[]
  readonly peers: readonly PeerState[]
  readonly held: HeldUnits
  readonly counts: readonly RegionCount[]
  /** Undefined if no limit has the mode `shared`. */
  readonly shared: SharedState | undefined
  /** Messages of other regions that were refused. */
  readonly refused: Readonly<Record<RefusedReason, number>>
}

const HOST_DEFAULT = '0.0.0.0'

export class Regions {
  readonly store: RegionStore
  readonly #options: RegionsOptions
  readonly #section: RegionsSection
  readonly #topology: Topology
  readonly #links = new Map<string, LinkClient>()
  readonly #peers = new Map<string, Peer>()
  readonly #refused = Object.fromEntries(refusedReasons.map((reason) => [reason, 0])) as Record<
    RefusedReason,
    number
  >
  readonly #exchange: SharedExchange
  #limits: ReturnType<typeof regionLimits>
  #server: LinkServer | undefined

  /** Throws if a file or a secret cannot be read. `section` is that of the document. */
  constructor(options: RegionsOptions, self: string, section: RegionsSection) {
    this.#options = options
    this.#section = section
    this.#topology = createTopology(self, section)
    this.#limits = regionLimits(options.document, this.#topology)
    const { link } = section
    for (const peer of link === undefined ? [] : this.#topology.peers) {
      const client = new LinkClient({
        ...{ topology: this.#topology, peer, ...this.#credentials(link) },
        deadlineMs: link?.deadline ?? 0,
        onChange: (isUp, problem) => {
          if (isUp) this.#onReached(peer)
          options.onPeer(peer, isUp, problem)
        },
        onForgotten: () => this.store.forgotten.addSelf(),
      })
      this.#links.set(peer, client)
      this.#peers.set(peer, { link: client, store: new PeerStore(client) })
    }
    this.store = new RegionStore(options.store, this.#topology, this.#peers, this.#limits)
    this.#exchange = new SharedExchange(
      {
        topology: this.#topology,
        admitted: this.store.admitted,
        open: options.openExchange,
        send: (to, body) => {
          // The sender repeats what is not acknowledged.
          void this.#peers
            .get(to)
            ?.link.request(frameTypes.shared, body)
            .catch(() => undefined)
        },
      },
      this.#limits,
    )
  }

  /** Opens the listener for other regions. */
  async start(): Promise<void> {
    const { link } = this.#section
    if (link === undefined) return
    const service = peerService(this.#options.store, (name) => this.#limits.get(name)?.mode)
    this.#server = await startLinkServer({
      topology: this.#topology,
      host: link.listen.host ?? HOST_DEFAULT,
      port: link.listen.port,
      ...this.#credentials(link),
      handlers: new Map([
        [frameTypes.store, service],
        [frameTypes.shared, this.#exchange.handler],
      ]),
      isForgotten: (region) => this.store.forgotten.has(region),
      // A region that reaches this one can probably be reached too.
      onMessage: (from) => this.#links.get(from)?.hurry(),
      onRefused: (reason) => {
        this.#refused[reason]++
      },
    })
    this.#exchange.start()
  }

  /** The port of the listener; undefined before `start` and without a link. */
  get port(): number | undefined {
    return this.#server?.port
  }

  /** Takes the modes of limits of a new policy. The list of regions stays until a restart. */
  use(document: PolicyDocument): void {
    this.#limits = regionLimits(document, this.#topology)
    this.store.use(this.#limits)
    this.#exchange.use(this.#limits)
  }

  /**
   * Takes the regions that operators have given up, and that are in the list. Those of an earlier
   * list are ignored.
   */
  forget(regions: readonly ForgottenRegion[]): void {
    const { names } = this.#topology
    this.store.forgotten.use(regions.filter(({ name }) => names.includes(name)))
  }

  state(): RegionsState {
    return {
      self: this.#topology.self,
      forgotten: this.store.forgotten.names,
      peers: [...this.#links.values()].map((link) => link.state()),
      held: this.store.held(),
      counts: this.store.counts(),
      shared: this.#exchange.state(),
      refused: { ...this.#refused },
    }
  }

  /** Call it after leased units were given back, which `close` of the store does. */
  async close(): Promise<void> {
    await this.#exchange.close()
    await this.#server?.close()
    for (const link of this.#links.values()) link.close()
  }

  #onReached(peer: string): void {
    this.#exchange.reached(peer)
    // A cut of this region from several others ends for all of them.
    for (const link of this.#links.values()) link.hurry()
  }

  #credentials(link: RegionsSection['link']) {
    const { readSecret, folder } = this.#options
    const read = (file = '') => readTlsFile(file, folder)
    return {
      tls: { cert: read(link?.cert), key: read(link?.key), ca: read(link?.ca) },
      token: link?.token && readSecret(link.token, 'regions.link.token'),
    }
  }
}
