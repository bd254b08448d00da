/**
 * Installs the missing programs of `./run.sh test-envoy`. If one cannot be installed, this prints
 * why, and its tests are skipped.
 */

import { installProgram, programPath } from './install-program.ts'
import { envoy, h2spec, ratelimit } from './programs.ts'

const say = (line: string) => console.error(`== ${line}`)

for (const program of [envoy, h2spec, ratelimit]) {
  if (programPath(program) !== undefined) continue
  const installed = await installProgram(program, say)
  if ('problem' in installed) say(`without ${program.name}: ${installed.problem}`)
}
