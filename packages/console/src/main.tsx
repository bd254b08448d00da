/** The start of the console. A token in the address is swapped for a session and removed. */

import 'uplot/dist/uPlot.min.css'
import './style.css'
import { render } from 'preact'
import { findSession, logIn } from './api.ts'
import { App } from './app.tsx'
import { startFeed } from './feed.ts'
import { startRouter } from './router.ts'
import { startTheme } from './theme.ts'

startTheme()
startRouter()
startFeed()
const token = /^#token=([\x21-\x7e]+)$/.exec(location.hash)?.[1]
if (token === undefined) void findSession()
else {
  history.replaceState(null, '', '#/now')
  dispatchEvent(new HashChangeEvent('hashchange'))
  void logIn(token).catch(() => undefined)
}
const app = document.getElementById('app')
if (app !== null) render(<App />, app)
