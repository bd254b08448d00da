/** The OpenAPI document of the admin API, made from the route table. */

import { z } from 'zod'
import type { Route } from './route.ts'

export function adminOpenApi(routes: readonly Route[], version: string): object {
  const paths: Record<string, Record<string, object>> = {}
  for (const route of routes) {
    paths[route.path] = { ...paths[route.path], [route.method.toLowerCase()]: operation(route) }
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Tidegate admin API',
      version,
      description: 'Live changes to a running policy, with an audit of every change.',
    },
    // The host and port are those that the document comes from.
    servers: [{ url: '/', description: 'The listener of `admin.listen`.' }],
    paths,
    components: {
      securitySchemes: {
        token: { type: 'http', scheme: 'bearer' },
        session: { type: 'apiKey', in: 'cookie', name: '__Host-tidegate' },
        certificate: { type: 'mutualTLS' },
      },
      schemas: {
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

function operation(route: Route): object {
  const { method, path, role, summary, body, query, type } = route
  const names = Array.from(path.matchAll(/\{(\w+)\}/g), ([, name]) => name)
  const parameters = [
    ...names.map((name) => ({ name, in: 'path', required: true, schema: { type: 'string' } })),
    ...query.map((name) => ({ name, in: 'query', schema: { type: 'string' } })),
  ]
  return {
    operationId: operationIdOf(method, path),
    summary,
    description: `Needs the role \`${role}\`.`,
    security: [{ token: [] }, { session: [] }, { certificate: [] }],
    ...(parameters.length === 0 ? undefined : { parameters }),
    ...(body === undefined ? undefined : { requestBody: requestBody(body) }),
    responses: {
      200: {
        description: 'Done.',
        content: { [type]: { schema: responseSchema(route) } },
      },
      401: problem('There is no valid credential.'),
      403: problem('The role is not enough.'),
      429: problem('Too many wrong credentials; `Retry-After` is the time to wait.'),
      ...(body === undefined
        ? undefined
        : { 422: problem('A field is not valid; the detail names it.') }),
      default: problem('The request was refused; the detail gives the reason.'),
    },
  }
}

/** Such as `getPolicyVersionsVersion`. */
function operationIdOf(method: string, path: string): string {
  const words = path.replace(/^\/v1/, '').split(/[^a-z]+/)
  const name = words.map((word) => word.slice(0, 1).toUpperCase() + word.slice(1)).join('')
  return `${method.toLowerCase()}${name}`
}

/** Further fields may come with any version, so that clients must not refuse them. */
function responseSchema({ response }: Route): object {
  if (response === undefined) return { type: 'string' }
  const { $schema: _, ...schema } = z.toJSONSchema(response, {
    unrepresentable: 'any',
    override({ jsonSchema }) {
      if (jsonSchema.additionalProperties === false) delete jsonSchema.additionalProperties
    },
  })
  return schema
}

function requestBody(schema: z.ZodType): object {
  const { $schema: _, ...body } = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' })
  return { required: true, content: { 'application/json': { schema: body } } }
}

function problem(description: string): object {
  return {
    description,
    content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } },
  }
}
