/** The storage in memory of @nestjs/throttler, which keeps the time of every hit. */

import type { PeerProgram } from './peer-program.ts'

export const nestThrottler: PeerProgram = {
  name: '@nestjs/throttler',
  variable: 'TIDEGATE_NEST_THROTTLER',
  file: 'nestjs/node_modules/@nestjs/throttler/dist/throttler.service.js',
  npmPackages: [
    ...['@nestjs/throttler@6.7.1', '@nestjs/common@11', '@nestjs/core@11'],
    ...['reflect-metadata@0.2', 'rxjs@7'],
  ],
}

/** What its guard asks for every request. */
export interface ThrottlerStorage {
  increment(
    key: string,
    ttlMs: number,
    limit: number,
    blockMs: number,
    name: string,
  ): Promise<{ readonly isBlocked: boolean }>
  onApplicationShutdown(): void
}

/** From the path of its module. */
export async function loadThrottlerStorage(path: string): Promise<new () => ThrottlerStorage> {
  const { ThrottlerStorageService } = await import(path)
  return ThrottlerStorageService
}
