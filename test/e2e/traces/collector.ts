/** A collector for tests: takes OTLP over HTTP as JSON, and keeps the spans. */

import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'
import { LOOPBACK } from '../../support/servers/ports.ts'

export interface CollectedSpan {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId: string
  readonly name: string
  /** 1 internal, 2 server, 3 client. */
  readonly kind: number
  readonly startNs: bigint
  readonly endNs: bigint
  readonly attributes: Readonly<Record<string, unknown>>
  readonly links: readonly { readonly traceId: string; readonly spanId: string }[]
  /** 0 unset, 2 error. */
  readonly status: number
  readonly resource: Readonly<Record<string, unknown>>
}

export interface Collector {
  readonly url: string
  readonly spans: readonly CollectedSpan[]
  readonly requests: readonly { readonly path: string; readonly headers: object }[]
}

/** Fields of https://github.com/open-telemetry/opentelemetry-proto that the tests read. */
interface OtlpBody {
  readonly resourceSpans: ReadonlyArray<{
    readonly resource: { readonly attributes: OtlpAttributes }
    readonly scopeSpans: ReadonlyArray<{ readonly spans: readonly OtlpSpan[] }>
  }>
}

type OtlpAttributes = ReadonlyArray<{
  readonly key: string
  readonly value: Readonly<Record<string, unknown>>
}>

interface OtlpSpan {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly name: string
  readonly kind: number
  readonly startTimeUnixNano: string
  readonly endTimeUnixNano: string
  readonly attributes: OtlpAttributes
  readonly links?: readonly { readonly traceId: string; readonly spanId: string }[]
  readonly status?: { readonly code?: number }
}

/** Stopped when the test ends. `answer` is the status of its responses. */
export async function startCollector(answer: () => number = () => 200): Promise<Collector> {
  const spans: CollectedSpan[] = []
  const requests: { path: string; headers: object }[] = []
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    requests.push({ path: request.url ?? '', headers: request.headers })
    const status = answer()
    if (status === 200) spans.push(...decode(JSON.parse(Buffer.concat(chunks).toString())))
    response.writeHead(status, { 'content-type': 'application/json' }).end('{}')
  })
  await new Promise<void>((resolve) => server.listen(0, LOOPBACK, resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://${LOOPBACK}:${(server.address() as AddressInfo).port}`, spans, requests }
}

function decode({ resourceSpans }: OtlpBody): CollectedSpan[] {
  return resourceSpans.flatMap(({ resource, scopeSpans }) => {
    const shared = attributesOf(resource.attributes)
    return scopeSpans.flatMap(({ spans }) => spans.map((span) => decodeSpan(span, shared)))
  })
}

function decodeSpan(span: OtlpSpan, resource: CollectedSpan['resource']): CollectedSpan {
  const { traceId, spanId, name, kind, parentSpanId = '', links = [] } = span
  return {
    ...{ traceId, spanId, name, kind, parentSpanId, links, resource },
    startNs: BigInt(span.startTimeUnixNano),
    endNs: BigInt(span.endTimeUnixNano),
    attributes: attributesOf(span.attributes),
    status: span.status?.code ?? 0,
  }
}

/** A value is an object with its type as the only name; 64-bit integers may be texts. */
function attributesOf(attributes: OtlpAttributes): Readonly<Record<string, unknown>> {
  const entries = attributes.map(({ key, value }) => {
    const [type, plain] = Object.entries(value)[0] ?? []
    return [key, type === 'intValue' ? Number(plain) : plain]
  })
  return Object.fromEntries(entries)
}
