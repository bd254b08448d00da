/**
 * How soon three regions share limits again after links were cut: eu is cut off from the others,
 * with traffic. Arguments: the seconds of a cut, instead of 60, and the number of cuts. With
 * `network` as a third, regions are network namespaces, which needs Linux, root and `ip`.
 */

import { sharingModes, startCutWorld } from '../../test/support/regions/after-cut.ts'

const [seconds = '60', rounds = '1', kind] = process.argv.slice(2)

const world = await startCutWorld({ isNetwork: kind === 'network' })
try {
  for (let round = 1; round <= Number(rounds); round++) {
    const took = await world.cut(Number(seconds))
    const times = sharingModes.map((mode) => `${mode} ${took[mode]} ms`)
    console.info(`after a cut of ${seconds} s, limits are shared again after: ${times.join(', ')}`)
  }
} finally {
  await world.stop()
}
