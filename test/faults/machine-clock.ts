/**
 * One time axis for all processes of this machine. It counts from the start of the machine, so it
 * is the same in every process, and no change of the wall clock moves it.
 */

export function machineNowMs(): number {
  return Number(process.hrtime.bigint()) / 1e6
}
