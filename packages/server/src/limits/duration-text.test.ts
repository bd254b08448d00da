import { expect, test } from 'vitest'
import { durationText } from './duration-text.ts'

test.each([
  [1, '1ms'],
  [250, '250ms'],
  [10_000, '10s'],
  [90_000, '90s'],
  [300_000, '5m'],
  [3_600_000, '1h'],
  [172_800_000, '2d'],
  [86_400_001, '86400001ms'],
])('%i ms are %s', (durationMs, text) => expect(durationText(durationMs)).toBe(text))
