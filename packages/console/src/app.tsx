/** The frame of all screens: navigation, banners that cannot be missed, and the log-in. */

import type { ComponentType } from 'preact'
import { useState } from 'preact/hooks'
import { logIn, logOut, session } from './api.ts'
import { connection, dataMs, slow, tick } from './feed.ts'
import { Notice } from './parts/action.tsx'
import { Field, Problem } from './parts/basics.tsx'
import { link, place } from './router.ts'
import { AuditScreen } from './screens/audit.tsx'
import { ChangeScreen } from './screens/change.tsx'
import { ClientScreen } from './screens/client/client-screen.tsx'
import { ExplainScreen } from './screens/explain.tsx'
import { LimitedScreen } from './screens/limited.tsx'
import { LimitsScreen } from './screens/limits.tsx'
import { NowScreen } from './screens/now.tsx'
import { RegionsScreen } from './screens/regions.tsx'
import { StoresScreen } from './screens/stores.tsx'
import { SwitchScreen } from './screens/switch.tsx'
import { TokensScreen } from './screens/tokens.tsx'
import { UpstreamsScreen } from './screens/upstreams.tsx'
import { VersionsScreen } from './screens/versions.tsx'
import { Shortcuts, showShortcuts, type Target } from './shortcuts.tsx'
import { plain, time } from './text.ts'
import { type Choice, choice, choose } from './theme.ts'

interface Screen extends Target {
  readonly component: ComponentType
}

const groups: readonly (readonly Screen[])[] = [
  [
    { id: 'now', letter: 'n', name: 'Now', component: NowScreen },
    { id: 'limited', letter: 'w', name: 'Who is limited', component: LimitedScreen },
    { id: 'client', letter: 'c', name: 'Client', component: ClientScreen },
  ],
  [
    { id: 'limits', letter: 'l', name: 'Limits', component: LimitsScreen },
    { id: 'change', letter: 'p', name: 'Change', component: ChangeScreen },
    { id: 'versions', letter: 'v', name: 'Versions', component: VersionsScreen },
    { id: 'explain', letter: 'e', name: 'Explain', component: ExplainScreen },
  ],
  [
    { id: 'stores', letter: 's', name: 'Stores', component: StoresScreen },
    { id: 'upstreams', letter: 'u', name: 'Upstreams', component: UpstreamsScreen },
    { id: 'regions', letter: 'r', name: 'Regions', component: RegionsScreen },
  ],
  [
    { id: 'audit', letter: 'a', name: 'Audit', component: AuditScreen },
    { id: 'tokens', letter: 't', name: 'Tokens', component: TokensScreen },
    { id: 'switch', letter: 'x', name: 'Switch', component: SwitchScreen },
  ],
]

const screens = groups.flat()

export function App() {
  if (session.value === null) return <LogIn />
  const screen = screens.find(({ id }) => id === place.value.screen)
  const Component = screen?.component ?? NowScreen
  document.title = `${screen?.name ?? 'Now'} – Tidegate`
  return (
    <>
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <div class="frame">
        <Navigation current={screen?.id ?? 'now'} />
        <main id="main" tabIndex={-1}>
          <Banners />
          <Notice />
          <h1>{screen?.name ?? 'Now'}</h1>
          {tick.value === undefined ? <Waiting /> : <Component />}
        </main>
      </div>
      <Shortcuts targets={screens} />
    </>
  )
}

function Waiting() {
  const text =
    connection.value === 'connecting'
      ? 'Waiting for the first data …'
      : 'The server does not answer.'
  return (
    <p class="empty" role="status">
      {text}
    </p>
  )
}

function Navigation({ current }: { current: string }) {
  const [isOpen, setOpen] = useState(false)
  return (
    <nav class={isOpen ? 'open' : ''} aria-label="Screens">
      <div class="brand">
        <a href={link('now')}>
          <span aria-hidden="true">≋</span> Tidegate
        </a>
        <button
          type="button"
          class="menu quiet"
          aria-expanded={isOpen}
          onClick={() => setOpen(!isOpen)}
        >
          Menu
        </button>
      </div>
      {groups.map((screens) => (
        <ul key={screens[0]?.id}>
          {screens.map(({ id, name }) => (
            <li key={id}>
              <a
                href={link(id)}
                aria-current={id === current ? 'page' : undefined}
                onClick={() => setOpen(false)}
              >
                {name}
              </a>
            </li>
          ))}
        </ul>
      ))}
      <Account />
    </nav>
  )
}

function Account() {
  const { name = '', role = '' } = session.value ?? {}
  return (
    <div class="account">
      <p>
        {plain(name)} <small>{role}</small>
      </p>
      <label>
        <span class="unseen">Theme</span>
        <select
          value={choice.value}
          onChange={({ currentTarget }) => choose(currentTarget.value as Choice)}
        >
          <option value="system">System theme</option>
          <option value="light">Light</option>
          <option value="dark">Dark</option>
        </select>
      </label>
      <button type="button" class="quiet" onClick={showShortcuts}>
        Shortcuts <kbd>?</kbd>
      </button>
      <button type="button" class="quiet" onClick={() => void logOut()}>
        Log out
      </button>
    </div>
  )
}

function Banners() {
  const { state, store } = tick.value ?? {}
  const { switch: live, canary, controlProblem } = slow.value ?? {}
  const isOff = live !== undefined && (live.limits !== 'on' || live.blocks !== 'on')
  return (
    <div class="banners">
      {connection.value === 'stale' && (
        <p class="banner grey" role="status">
          No data since {time(dataMs.value)}. The numbers are from then. Connecting again …
        </p>
      )}
      {isOff && (
        <p class="banner loud" role="status">
          {live.limits === 'off' && 'All limits are off. '}
          {live.limits === 'shadow' && 'All limits count and refuse nothing (shadow). '}
          {live.blocks === 'off' && 'All blocks are lifted. '}
          {live.until === null ? 'Without an end. ' : `Until ${time(live.until)}. `}
          {plain(`${live.by}: ${live.why}`)} <a href={link('switch')}>Switch</a>
        </p>
      )}
      {canary && (
        <p class="banner grey">
          Version {canary.version} is a canary for {plain(canary.where)}, until {time(canary.until)}
          . <a href={link('versions')}>Versions</a>
        </p>
      )}
      {state?.isEnabled === false && (
        <p class="banner loud" role="status">
          The policy is disabled (enabled: false): nothing is limited.
        </p>
      )}
      {store?.isConnected === false && (
        <p class="banner warn" role="status">
          The store does not answer: {plain(store.kind)}. Limits decide as they declare.{' '}
          <a href={link('stores')}>Stores</a>
        </p>
      )}
      {(state?.isControlConnected === false || typeof controlProblem === 'string') && (
        <p class="banner warn" role="status">
          etcd does not answer: {plain(controlProblem ?? state?.controlKind ?? '')}. The live policy
          stays; changes are not possible.
        </p>
      )}
      {(state?.refusedProblems.length ?? 0) > 0 && (
        <p class="banner warn" role="status">
          This node has refused a policy: {plain(state?.refusedProblems[0] ?? '')}
        </p>
      )}
    </div>
  )
}

function LogIn() {
  const [error, setError] = useState<string>()
  const submit = async (event: SubmitEvent) => {
    event.preventDefault()
    const form = new FormData(event.currentTarget as HTMLFormElement)
    try {
      await logIn(String(form.get('token') ?? ''))
    } catch (failure) {
      setError((failure as Error).message)
    }
  }
  return (
    <main class="log-in">
      <h1>
        <span aria-hidden="true">≋</span> Tidegate
      </h1>
      <form onSubmit={submit}>
        <Field
          label="Token"
          hint="Such as tg_…: tidegate token create, or the first one of the node."
        >
          <input name="token" type="password" required autoComplete="off" spellcheck={false} />
        </Field>
        <Problem error={error} />
        <button type="submit" class="primary">
          Log in
        </button>
      </form>
    </main>
  )
}
