/** Starts tracing if the environment asks for it. Without it, the SDK is not loaded. */

import type { Emit } from '../observability/events.ts'
import type { StartedTracing } from '../observability/tracing/start-tracing.ts'
import { tracingSettings } from '../observability/tracing/tracing-settings.ts'
import { type Environment, SettingError } from './environment.ts'
import type { Lifecycle } from './lifecycle.ts'

export interface OpenTracingOptions {
  readonly environment: Environment
  readonly version: string
  readonly emit: Emit
}

/** Throws SettingError if a variable cannot be used. Undefined if tracing is off. */
export async function openTracing(
  { environment, version, emit }: OpenTracingOptions,
  lifecycle: Lifecycle,
): Promise<StartedTracing | undefined> {
  const settings = settingsOf(environment)
  if (settings === undefined) return undefined
  const { startTracing } = await import('../observability/tracing/start-tracing.ts')
  const started = startTracing({ settings, version, emit })
  lifecycle.add(() => started.close())
  return started
}

function settingsOf(environment: Environment) {
  try {
    return tracingSettings(environment)
  } catch (error) {
    throw new SettingError(error instanceof Error ? error.message : String(error))
  }
}
