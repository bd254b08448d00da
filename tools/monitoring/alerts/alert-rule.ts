/** An alert with the series of its unit tests. */

/** A page wakes a person; a ticket waits for the morning; info is shown beside other alerts. */
export const severities = ['page', 'ticket', 'info', 'none'] as const

export interface AlertRule {
  readonly name: string
  readonly expr: string
  /** How long the condition holds before the alert fires. Default: at once. */
  readonly for?: string
  readonly severity: (typeof severities)[number]
  readonly summary: string
  /** With numbers of the alert, as a template of Prometheus. */
  readonly description: string
  /** The dashboard that shows the cause. */
  readonly board: string
  readonly fires: AlertCase
  readonly quiet: AlertCase
}

/** Series with a sample per minute, and the time at which the alert is expected or not. */
export interface AlertCase {
  readonly series: Readonly<Record<string, string>>
  readonly at: string
}

export const PERCENT = '{{ $value | humanizePercentage }}'
export const SECONDS = '{{ $value | humanizeDuration }}'
export const NUMBER = '{{ $value | humanize }}'

/** A series that grows by `perMinute` for 6 hours. */
export const grows = (perMinute: number) => `0+${perMinute}x360`

/** A series that keeps a value for 6 hours. */
export const stays = (value: number) => `${value}+0x360`

/** Quiet for 20 minutes, and then one step up. */
export const steps = (value: number) => `0+0x20 ${value}+0x340`
