#!/usr/bin/env bash
# Packs the files of the CPU image (stage.sh) as a Debian package, dist/ingot_VERSION_amd64.deb. Called by `make deb`.
#   scripts/deb/build.sh BUILD [OUT]     BUILD: build/release, OUT: dist
set -euo pipefail
cd "$(dirname "$0")/../.."
version=$(sed -nE 's/^project\(ingot VERSION ([0-9.]+).*/\1/p' CMakeLists.txt)
out=${2:-dist} root=build/deb/root
rm -rf build/deb
mkdir -p "$root/DEBIAN" "$root/usr/bin" "$root/usr/share/doc/ingot" "$out"
scripts/stage.sh "$1" "$root/opt/ingot" torch
ln -s ../../opt/ingot/bin/ingot "$root/usr/bin/ingot"
cp LICENSE "$root/usr/share/doc/ingot/copyright"
glibc=$(objdump -T "$root"/opt/ingot/bin/ingot.bin "$root"/opt/ingot/lib/*.so* | grep -oE 'GLIBC_2\.[0-9]+' | sort -uV | tail -n 1)
cat >"$root/DEBIAN/control" <<CONTROL
Package: ingot
Version: $version
Architecture: amd64
Maintainer: the Ingot authors <ingot@localhost>
Section: science
Priority: optional
Depends: libc6 (>= ${glibc#GLIBC_}), bash, ca-certificates
Recommends: python3, openssl
Installed-Size: $(du -ks "$root" | cut -f1)
Description: asynchronous reinforcement learning for language-model agents
 Trains language models through unmodified agent programs. Contains the binary, the run page, the libraries that they
 need, and torch's libraries for CPUs. Nothing is compiled or downloaded.
CONTROL
chmod -R go=u-w,u+w "$root"
dpkg-deb --root-owner-group -Zzstd -z"${ZSTD_LEVEL:-12}" --build "$root" "$out/ingot_${version}_amd64.deb"
ls -l "$out/ingot_${version}_amd64.deb"
