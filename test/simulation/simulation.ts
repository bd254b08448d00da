/** A run of a simulation: its seed, its incidents, and the invariants that it broke. */

import type { Incident } from './incidents.ts'

export interface Plan {
  readonly seed: number
  /** The set-up in words, for a failure's report. */
  readonly text: string
  readonly incidents: readonly Incident[]
}

export interface Violation {
  readonly atMs: number
  readonly text: string
}

type Result = Violation | undefined

export interface Simulation<P extends Plan> {
  readonly name: string
  plan(seed: number): P
  /** Runs a plan to its end, or to the first violation. */
  run(plan: P): Result | Promise<Result>
}

/** Thrown by an invariant; ends the run. */
export class Broken extends Error {
  readonly violation: Violation

  constructor(atMs: number, text: string) {
    super(text)
    this.violation = { atMs, text }
  }
}

export function violationOf(run: () => void): Result {
  try {
    run()
    return undefined
  } catch (error) {
    return violationIn(error)
  }
}

/** The violation that ended a run; other errors are thrown. */
export function violationIn(error: unknown): Violation {
  if (error instanceof Broken) return error.violation
  throw error
}

/** Runs seeds until one breaks an invariant; returns its report with a shortest list. */
export async function firstFailure<P extends Plan>(
  simulation: Simulation<P>,
  firstSeed: number,
  seeds: number,
): Promise<string | undefined> {
  for (let seed = firstSeed; seed < firstSeed + seeds; seed++) {
    const plan = simulation.plan(seed)
    if ((await simulation.run(plan)) !== undefined) {
      return report(simulation, await shrink(simulation, plan))
    }
  }
  return undefined
}

/** Removes incidents, halves first, as long as the plan still breaks an invariant. */
export async function shrink<P extends Plan>(simulation: Simulation<P>, plan: P): Promise<P> {
  let shortest = plan
  for (let size = plan.incidents.length >> 1; size >= 1; ) {
    const shorter = await withoutSome(simulation, shortest, size)
    if (shorter === undefined) size >>= 1
    else shortest = shorter
  }
  return shortest
}

async function withoutSome<P extends Plan>(
  simulation: Simulation<P>,
  plan: P,
  size: number,
): Promise<P | undefined> {
  for (let at = 0; at < plan.incidents.length; at += size) {
    const shorter = { ...plan, incidents: plan.incidents.toSpliced(at, size) }
    if ((await simulation.run(shorter)) !== undefined) return shorter
  }
  return undefined
}

async function report<P extends Plan>(simulation: Simulation<P>, plan: P): Promise<string> {
  const violation = await simulation.run(plan)
  return [
    `${simulation.name}, seed ${plan.seed}: ${plan.text}`,
    ...plan.incidents.map((incident) => JSON.stringify(incident)),
    `at ${violation?.atMs} ms: ${violation?.text}`,
  ].join('\n')
}
