/** The storage in memory of @nestjs/throttler, which keeps the time of every hit. */

import type { Program } from '../../tools/install/install-program.ts'

export const nestThrottler: Program = {
  name: '@nestjs/throttler',
  variable: 'TIDEGATE_NEST_THROTTLER',
  file: 'nestjs/node_modules/@nestjs/throttler/dist/throttler.service.js',
  npmPackages: [
    ...['@nestjs/throttler@6.7.1', '@nestjs/common@11', '@nestjs/core@11'],
    ...['reflect-metadata@0.2', 'rxjs@7'],
  ],
}

/** The method that its guard calls for every request. */
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

/** Loads the storage from the path of its module. */
export async function loadThrottlerStorage(path: string): Promise<new () => ThrottlerStorage> {
  const { ThrottlerStorageService } = await import(path)
  return ThrottlerStorageService
}
