import type { RequestOutcome } from '../../limits/outcome.ts'
import { outcomeLabels } from '../metrics/door-metrics.ts'
import type { CheckOutcome } from './tracing.ts'

/** The decision of a request as its span shows it. */
export function checkOutcome({ outcome, evaluation }: RequestOutcome): CheckOutcome {
  return { outcome: outcomeLabels[outcome], applied: evaluation?.applied ?? [] }
}
