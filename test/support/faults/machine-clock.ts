/**
 * One time axis for all processes of this machine. It counts from the boot of the machine, and is
 * not affected by changes of the wall clock.
 */

export function machineNowMs(): number {
  return Number(process.hrtime.bigint()) / 1e6
}
