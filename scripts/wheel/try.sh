#!/usr/bin/env bash
# Installs dist/ingot_rl-*.whl into a new environment and trains the run from `ingot init` there, with no compiler on
# PATH. Prints the seconds for the install and until the first step, and fails unless the reward rises over the run.
#
#   try.sh [WHEEL_FOLDER]     PYTHON: interpreter for the environment (python3); INSTALLER: pip, uv, or pipx (pip)
#
# torch is installed without NVIDIA's large libraries, which a CPU does not need. A plain `pip install ingot_rl-*.whl`
# would download 3 GB with torch's default build.
set -euo pipefail
wheels=$(cd "${1:-dist}" && pwd)
scripts=$(cd "$(dirname "$0")/.." && pwd)
folder=$(mktemp -d /tmp/ingot-wheel.XXXXXX)
trap '/usr/bin/rm -rf "$folder"' EXIT
cd "$folder"
"${PYTHON:-python3}" -m venv env
torch=("torch==2.11.0" "nvidia-cuda-runtime==13.0.*" "nvidia-cuda-cupti==13.0.*")
start=$SECONDS
case ${INSTALLER:-pip} in
  pip) env/bin/pip install --quiet --no-deps "${torch[@]}" "$wheels"/ingot_rl-*.whl ;;
  uv) env/bin/pip install --quiet uv && env/bin/uv pip install --quiet --python env/bin/python --no-deps "${torch[@]}" "$wheels"/ingot_rl-*.whl ;;
  pipx) # makes its own environment, and reads the metadata of every requirement: all of torch, 3 GB
    env/bin/pip install --quiet pipx
    export PIPX_HOME=$folder/pipx PIPX_BIN_DIR=$folder/pipx-bin
    env/bin/pipx install --quiet "$wheels"/ingot_rl-*.whl ;;
  *) echo "INSTALLER is $INSTALLER: pip, uv, or pipx" >&2 && exit 2 ;;
esac
installed=$((SECONDS - start))
mkdir bin && for tool in env python3 sh; do ln -s "$(command -v $tool)" bin/; done
export PATH="$folder/pipx-bin:$folder/env/bin:$folder/bin"
ingot init demo
start=$SECONDS
/usr/bin/timeout 600 ingot train demo/run.yaml http.port=0 | /usr/bin/tee log | while read -r line; do
  case $line in *" 1/40 "*) echo "$((SECONDS - start))" >first ;; esac
done
/usr/bin/python3 "$scripts/reward_rises.py" demo/runs/demo/metrics.jsonl
echo "installed in $installed s (download included), first step $(/usr/bin/cat first) s after the start"
