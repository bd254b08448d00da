/** One limit of a client: used, left, its last refusals, and the ways to help. */

import type {
  ClientLimit,
  ClientLimitState,
} from '../../../../server/src/admin/console/console-types.ts'
import { Badge, Meter } from '../../parts/basics.tsx'
import { ago, brief, count, duration, time } from '../../text.ts'
import { LimitActions } from './limit-actions.tsx'

export function LimitCard({ limit: { name, mode, state } }: { limit: ClientLimit }) {
  if (state === null) return null
  const { used, left, limit, refusals } = state
  return (
    <article class="card">
      <header>
        <h3>{name}</h3>
        {mode !== 'enforce' && <Badge tone="plain">{mode}</Badge>}
        {left === 0 ? <Badge tone="bad">used up</Badge> : <Badge tone="good">has room</Badge>}
      </header>
      <Meter part={used} all={limit} />
      <Facts state={state} />
      {!state.isCertain && <p class="note">The store did not answer: the numbers are a guess.</p>}
      {refusals !== null && (
        <details class="data" open>
          <summary>
            {count(refusals.count)} refusals since {time(refusals.sinceMs)}, last{' '}
            {ago(refusals.lastMs)}
          </summary>
          <ul>
            {refusals.last.slice(-5).map(({ atMs, reason, retryAfterMs }) => (
              <li key={atMs}>
                {time(atMs)}: {reason}; told to wait {duration(retryAfterMs)}
              </li>
            ))}
          </ul>
        </details>
      )}
      {state.isFallback && <p class="note">Counted by a fallback key, which has no overrides.</p>}
      <LimitActions name={name} state={state} />
    </article>
  )
}

function Facts({ state }: { state: ClientLimitState }) {
  const { used, left, limit, numbers, source, resetAfterMs, held, leased } = state
  return (
    <dl class="facts">
      <div>
        <dt>Used</dt>
        <dd>
          {brief(used)} of {brief(limit)}
        </dd>
      </div>
      <div>
        <dt>Left</dt>
        <dd>{brief(left)}</dd>
      </div>
      <div>
        <dt>Resets in</dt>
        <dd>{duration(resetAfterMs)}</dd>
      </div>
      <div>
        <dt>Numbers</dt>
        <dd>
          {numbers} <small>by {source}</small>
        </dd>
      </div>
      {held !== null && (
        <div>
          <dt>Held</dt>
          <dd>{brief(held)}</dd>
        </div>
      )}
      {leased !== null && leased > 0 && (
        <div>
          <dt>Leased here</dt>
          <dd>{brief(leased)}</dd>
        </div>
      )}
      <div>
        <dt>Counted by</dt>
        <dd>
          {state.keyKind} <small>{state.keyHash}</small>
        </dd>
      </div>
    </dl>
  )
}
