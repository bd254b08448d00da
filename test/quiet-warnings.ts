/**
 * Keeps Node from printing process warnings, of which tests of outages cause many. Listeners of a
 * test still get them.
 */

process.removeAllListeners('warning')
