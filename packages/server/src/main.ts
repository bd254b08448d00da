#!/usr/bin/env node
/** The program `tidegate`: nothing but the command line and the exit code. */

import { runCli } from './cli/cli.ts'

process.exitCode = await runCli(process.argv.slice(2), {
  environment: process.env,
  stdout: (text) => process.stdout.write(text),
  stderr: (text) => process.stderr.write(text),
})
