import { describe, expect, test } from 'vitest'
import { tracingSettings } from './tracing-settings.ts'

const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318' }

describe('tracing is off', () => {
  test.each([
    ['without a variable', {}],
    ['with only a sampler', { OTEL_TRACES_SAMPLER: 'always_on' }],
    ['with an empty endpoint', { OTEL_EXPORTER_OTLP_ENDPOINT: ' ' }],
    ['if it is disabled', { ...endpoint, OTEL_SDK_DISABLED: 'TRUE' }],
    ['with the exporter none', { ...endpoint, OTEL_TRACES_EXPORTER: 'none' }],
  ])('%s', (_, environment) => {
    expect(tracingSettings(environment)).toBeUndefined()
  })
})

describe('tracing is on', () => {
  test('with an endpoint alone: 1 % of new traces, as the service tidegate', () => {
    expect(tracingSettings(endpoint)).toEqual({
      url: 'http://collector:4318/v1/traces',
      headers: {},
      timeoutMs: 10_000,
      sampler: { isParentBased: true, ratio: 0.01 },
      resource: { 'service.name': 'tidegate' },
    })
  })

  test.each([
    [{ OTEL_TRACES_EXPORTER: 'otlp' }, 'http://localhost:4318/v1/traces'],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'https://a/otlp/' }, 'https://a/otlp/v1/traces'],
    [{ ...endpoint, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://b/x' }, 'http://b/x'],
  ])('%j sends to %s', (environment, url) => {
    expect(tracingSettings(environment)?.url).toBe(url)
  })

  test.each([
    [{ OTEL_TRACES_SAMPLER: 'always_on' }, { isParentBased: false, ratio: 1 }],
    [{ OTEL_TRACES_SAMPLER: 'always_off' }, { isParentBased: false, ratio: 0 }],
    [{ OTEL_TRACES_SAMPLER: 'traceidratio' }, { isParentBased: false, ratio: 1 }],
    [{ OTEL_TRACES_SAMPLER: 'parentbased_always_on' }, { isParentBased: true, ratio: 1 }],
    [{ OTEL_TRACES_SAMPLER_ARG: '0.5' }, { isParentBased: true, ratio: 0.5 }],
    [
      { OTEL_TRACES_SAMPLER: 'traceidratio', OTEL_TRACES_SAMPLER_ARG: '0.25' },
      { isParentBased: false, ratio: 0.25 },
    ],
  ])('%j is a sampler', (environment, sampler) => {
    expect(tracingSettings({ ...endpoint, ...environment })?.sampler).toEqual(sampler)
  })

  test('the variables for traces win over those for all signals', () => {
    const found = tracingSettings({
      ...endpoint,
      OTEL_EXPORTER_OTLP_HEADERS: 'a=1',
      OTEL_EXPORTER_OTLP_TRACES_HEADERS: 'b=2%2C3, c = 4',
      OTEL_EXPORTER_OTLP_TIMEOUT: '1',
      OTEL_EXPORTER_OTLP_TRACES_TIMEOUT: '500',
    })
    expect(found).toMatchObject({ headers: { b: '2,3', c: '4' }, timeoutMs: 500 })
  })
})

describe('a value that cannot be used is refused', () => {
  test.each([
    ['OTEL_SDK_DISABLED', 'maybe', 'true or false'],
    ['OTEL_TRACES_EXPORTER', 'jaeger', 'otlp or none'],
    ['OTEL_EXPORTER_OTLP_ENDPOINT', 'collector:4318', 'a URL with http: or https:'],
    ['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', 'ftp://a', 'a URL with http: or https:'],
    ['OTEL_EXPORTER_OTLP_PROTOCOL', 'grpc', 'http/json'],
    ['OTEL_EXPORTER_OTLP_TIMEOUT', '0', 'milliseconds from 1 to 60000'],
    ['OTEL_TRACES_SAMPLER', 'sometimes', 'always_on, always_off'],
    ['OTEL_TRACES_SAMPLER_ARG', '2', 'a number from 0 to 1'],
    ['OTEL_TRACES_SAMPLER_ARG', 'half', 'a number from 0 to 1'],
    ['OTEL_RESOURCE_ATTRIBUTES', 'a', 'key=value pairs'],
    ['OTEL_RESOURCE_ATTRIBUTES', 'a=%zz', 'key=value pairs'],
  ])('%s=%s', (name, value, allowed) => {
    const environment = { ...endpoint, [name]: value }
    expect(() => tracingSettings(environment)).toThrow(
      `${name}: ${JSON.stringify(value)} is not allowed; allowed: ${allowed}`,
    )
  })

  test.each([
    ['OTEL_EXPORTER_OTLP_HEADERS', 'authorization'],
    ['OTEL_EXPORTER_OTLP_HEADERS', 'a=secret%0d%0ab: c'],
    ['OTEL_EXPORTER_OTLP_ENDPOINT', 'http://user:secret@collector'],
  ])('%s=%s, which is not shown because it may be secret', (name, value) => {
    expect(() => tracingSettings({ ...endpoint, [name]: value })).toThrow(
      `${name}: "(not shown)" is not allowed`,
    )
  })
})
