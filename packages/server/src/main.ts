#!/usr/bin/env node
/** The program `tidegate`: nothing but the command line and the exit code. */

import { runCli } from './cli/cli.ts'

// A reader of the output that has gone away, or a full disk, must not end a service.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined)

process.exitCode = await runCli(process.argv.slice(2), {
  environment: process.env,
  isInteractive: process.stdout.isTTY,
  stdout: (text) => process.stdout.write(text),
  stderr: (text) => process.stderr.write(text),
})
