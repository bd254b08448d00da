/** How long an entry holds. Longer than a day needs the role admin. */

import { mayDo } from '../api.ts'
import { Field } from '../parts/basics.tsx'

const times = ['15m', '1h', '4h', '24h'] as const
const longTimes = ['7d', '30d', 'forever'] as const

export function EndFields() {
  const shown = mayDo('admin') ? [...times, ...longTimes] : times
  return (
    <Field label="Holds for" {...(!mayDo('admin') && { hint: 'Longer needs the role admin.' })}>
      <select name="end" defaultValue="1h">
        {shown.map((one) => (
          <option key={one} selected={one === '1h'}>
            {one}
          </option>
        ))}
      </select>
    </Field>
  )
}

/** The end as the admin API takes it. */
export function endOf(form: FormData): object {
  const end = String(form.get('end') ?? '1h')
  return end === 'forever' ? { forever: true } : { for: end }
}
