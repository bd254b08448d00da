/** The doors of a service as a client calls them: one decision about the limit of the prober. */

export interface ProbeDoor {
  readonly name: 'gateway' | 'decision_api' | 'rls'
  /** Never rejects. */
  ask(key: string): Promise<ProbeAnswer>
}

/** `unanswered` is everything that is not a decision by the limit of the prober. */
export type ProbeAnswer = 'admitted' | 'denied' | 'unanswered'

/** The header field, and the entry of a descriptor, that carries the key. */
export const PROBE_FIELD = 'x-tidegate-probe'

/** Far longer than a decision takes, and shorter than the pause between two rounds. */
const ANSWER_MS_MAX = 5_000

/** More than any response of the doors has. */
const BODY_LENGTH_MAX = 65_536

interface Response {
  readonly status: number
  readonly text: string
}

/** `url` is best a path without a route, so that no request reaches an upstream. */
export function gatewayDoor(url: string, limit: string): ProbeDoor {
  return {
    name: 'gateway',
    async ask(key) {
      const response = await send(url, { headers: { [PROBE_FIELD]: key } })
      if (response === undefined || response.status >= 500) return 'unanswered'
      if (response.status !== 429) return 'admitted'
      const violated = fieldOf(response.text, 'violated-policies')
      return Array.isArray(violated) && violated.includes(limit) ? 'denied' : 'unanswered'
    },
  }
}

export function decisionApiDoor(url: string, limit: string, token: string): ProbeDoor {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
  return {
    name: 'decision_api',
    async ask(key) {
      const body = JSON.stringify({ limits: [{ name: limit, key: [key] }] })
      const address = new URL('/v1/check', url).href
      const response = await send(address, { method: 'POST', headers, body })
      const outcome = response?.status === 200 ? fieldOf(response.text, 'outcome') : undefined
      if (outcome === 'denied') return 'denied'
      return outcome === 'admitted' ? 'admitted' : 'unanswered'
    },
  }
}

/** `url` is that of the HTTP port, which decides as the gRPC port does. */
export function rlsDoor(url: string, domain: string): ProbeDoor {
  return {
    name: 'rls',
    async ask(key) {
      const descriptors = [{ entries: [{ key: PROBE_FIELD, value: key }] }]
      const body = JSON.stringify({ domain, descriptors })
      const response = await send(new URL('/json', url).href, { method: 'POST', body })
      if (response?.status === 429) return 'denied'
      return response?.status === 200 ? 'admitted' : 'unanswered'
    },
  }
}

async function send(url: string, init: RequestInit): Promise<Response | undefined> {
  try {
    const signal = AbortSignal.timeout(ANSWER_MS_MAX)
    const response = await fetch(url, { redirect: 'manual', ...init, signal })
    const text = await response.text()
    return { status: response.status, text: text.slice(0, BODY_LENGTH_MAX) }
  } catch {
    return undefined
  }
}

function fieldOf(text: string, field: string): unknown {
  try {
    const value: unknown = JSON.parse(text)
    return Reflect.get(Object(value), field)
  } catch {
    return undefined
  }
}
