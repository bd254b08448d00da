/**
 * Keeps Node from printing process warnings, of which outage tests cause many. Listeners of a test
 * still get them.
 */

process.removeAllListeners('warning')
