/** Loaded before the gateway (`node --import`), replaces its stage for idempotency keys. */

import { registerHooks } from 'node:module'

const bare = new URL('./bare-stage.ts', import.meta.url).href

registerHooks({
  resolve(specifier, context, next) {
    const isStage = specifier.endsWith('/stages/idempotency/idempotency.ts')
    return isStage && context.parentURL?.endsWith('/gateway/gateway.ts')
      ? { url: bare, shortCircuit: true }
      : next(specifier, context)
  },
})
