/** One server under bench/middleware.ts: a framework with one limiter, in a process of its own. */

import type { MiddlewarePlan } from './plan.ts'

const plan: MiddlewarePlan = JSON.parse(process.argv[2] ?? '')
process.on('disconnect', () => process.exit(0))
// Every message asks for the processor time that the process has taken.
process.on('message', () => {
  const { user, system } = process.cpuUsage()
  process.send?.(user + system)
})
process.send?.(await serve())

/** Only the framework that is asked for is loaded. */
async function serve(): Promise<number> {
  if (plan.framework === 'express') {
    const { serveExpress } = await import('./express.ts')
    return serveExpress(plan)
  }
  const { serveFastify } = await import('./fastify.ts')
  return serveFastify(plan)
}
