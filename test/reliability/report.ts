/**
 * Runs every scenario at its full length, one after the other, and writes the results into the
 * tables of docs/reliability.md: `node test/reliability/report.ts`. It takes about 20 minutes on an
 * otherwise idle machine. With the name of a file with the rows of an earlier run, it only writes
 * the tables.
 */

import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { repositoryRoot } from '../house/source-file.ts'
import { faults, ROWS_VARIABLE, type Row, tableOf } from './table.ts'

const PAGE = join(repositoryRoot, 'docs', 'reliability.md')

const [kept] = process.argv.slice(2)
const rows = kept === undefined ? run() : rowsIn(kept)
const page = readFileSync(PAGE, 'utf8')
writeFileSync(PAGE, withTable(withTable(page, 'faults', rows), 'losses', rows))

function run(): Row[] {
  const folder = mkdtempSync(join(tmpdir(), 'tidegate-report-'))
  const file = join(folder, 'rows')
  const vitest = join(repositoryRoot, 'node_modules', 'vitest', 'vitest.mjs')
  const args = [vitest, 'run', 'test/reliability', '--no-file-parallelism']
  const long = { TIDEGATE_SOAK: '1', TIDEGATE_RELIABILITY: 'long' }
  const env = { ...process.env, ...long, [ROWS_VARIABLE]: file }
  const { status } = spawnSync(process.execPath, args, {
    cwd: repositoryRoot,
    env,
    stdio: 'inherit',
  })
  if (status !== 0) throw new Error('not everything held; docs/reliability.md stays as it is')
  const rows = rowsIn(file)
  rmSync(folder, { recursive: true })
  return rows
}

function rowsIn(file: string): Row[] {
  const lines = readFileSync(file, 'utf8').trim().split('\n')
  return lines.map((line) => JSON.parse(line))
}

function withTable(text: string, table: Row['table'], all: readonly Row[]): string {
  const rows = all
    .filter((row) => row.table === table)
    .sort((one, other) => placeOf(one) - placeOf(other))
  const [start, end] = [`<!-- table: ${table} -->\n`, '\n<!-- end of table -->']
  const from = text.indexOf(start) + start.length
  const to = text.indexOf(end, from)
  if (from < start.length || to < 0)
    throw new Error(`docs/reliability.md has no place for ${table}`)
  return `${text.slice(0, from)}\n${tableOf(rows)}\n${text.slice(to)}`
}

/** Sorting is stable: rows of the same place keep their order. */
function placeOf(row: Row): number {
  return row.table === 'faults'
    ? faults.indexOf(row.fault)
    : ['Sentinel', 'Cluster'].indexOf(row.servers)
}
