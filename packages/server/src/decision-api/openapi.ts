/** The OpenAPI document of the decision API, made from its schemas. */

import { z } from 'zod'
import { check, checkResult } from './check-schema.ts'

export function openApiDocument(version: string, batchMax: number): object {
  const input = z.toJSONSchema(check, { io: 'input', unrepresentable: 'any' })
  const output = z.toJSONSchema(checkResult, { unrepresentable: 'any' })
  const { $schema: _in, ...checkBody } = input
  const { $schema: _out, ...resultBody } = output
  return {
    openapi: '3.1.0',
    info: {
      title: 'Tidegate decision API',
      version,
      description: 'Decides on requests by the limits of a policy, for any language.',
    },
    // The host and port are those that the document comes from.
    servers: [{ url: '/', description: 'The listener of `decisionApi.listen`.' }],
    paths: {
      '/v1/check': { post: operation() },
      '/health': { get: publicOperation('health', 'Whether the process lives') },
      '/openapi.json': { get: publicOperation('openapi', 'This document') },
    },
    components: {
      securitySchemes: { token: { type: 'http', scheme: 'bearer' } },
      schemas: {
        Check: checkBody,
        Result: resultBody,
        Batch: list('checks', 'Check', { minItems: 1, maxItems: batchMax }),
        Results: list('results', 'Result'),
        Problem: {
          type: 'object',
          required: ['title', 'status', 'detail'],
          properties: {
            title: { type: 'string' },
            status: { type: 'integer' },
            detail: { type: 'string' },
          },
        },
      },
    },
  }
}

function operation(): object {
  const json = (...names: readonly string[]) => {
    const schemas = names.map((name) => ({ $ref: `#/components/schemas/${name}` }))
    return { 'application/json': { schema: { oneOf: schemas } } }
  }
  const problem = (description: string) => ({
    description,
    content: {
      'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } },
    },
  })
  return {
    operationId: 'check',
    summary: 'Decide on one request, or on several that do not depend on one another',
    security: [{ token: [] }],
    requestBody: { required: true, content: json('Check', 'Batch') },
    responses: {
      200: {
        description: 'The decision. A denial has this status as well.',
        content: json('Result', 'Results'),
      },
      400: problem('The body is invalid; the detail names the place.'),
      401: problem('The token is missing or wrong.'),
      413: problem('The body is too large.'),
      429: problem('Too many wrong tokens from this address; `Retry-After` is the time to wait.'),
      503: problem('The process is overloaded; `Retry-After` is the time to wait.'),
      500: problem('The request could not be served; the log has the reason.'),
    },
  }
}

function publicOperation(operationId: string, summary: string): object {
  const content = { 'application/json': { schema: { type: 'object' } } }
  return { operationId, summary, security: [], responses: { 200: { description: 'OK', content } } }
}

function list(field: string, name: string, bounds: object = {}): object {
  const items = { $ref: `#/components/schemas/${name}` }
  return {
    type: 'object',
    required: [field],
    additionalProperties: false,
    properties: { [field]: { type: 'array', items, ...bounds } },
  }
}
