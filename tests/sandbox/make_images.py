#!/usr/bin/env python3
"""Writes images by the OCI specification: make_images.py FOLDER. Each is a layout FOLDER/NAME; some break its rules.

  layers    whiteouts, an opaque folder, hard links within and across layers, a link, an absolute and a dotted name
  escape    members that lead out of the root: through links, with `..`, as hard links, with absolute names
  mounts    /proc, /dev, /tmp and /home are links that lead out of the root
  digest    a layer whose bytes are not its digest's
  diff_id   a layer whose digest is right, and whose content is not what the configuration says
  bomb      a layer of 256 MiB of zeros, 1 MiB compressed
  sparse    a member of 2 GiB that is one hole: a few hundred bytes, compressed or not
  devices   a device, a pipe, and a file with the setuid bit
"""
import gzip
import hashlib
import io
import json
import pathlib
import sys
import tarfile


def member(name, text=None, kind=tarfile.REGTYPE, link="", mode=0o644):
    info = tarfile.TarInfo(name)
    data = (text or "").encode()
    info.type, info.linkname, info.mode, info.size = kind, link, mode, len(data)
    if kind == tarfile.CHRTYPE:
        info.devmajor, info.devminor = 1, 3
    return info, data


def layer(*members):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for info, data in members:
            tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def folder(name):
    return member(name, kind=tarfile.DIRTYPE, mode=0o755)


def link(name, target):
    return member(name, kind=tarfile.SYMTYPE, link=target)


def hard(name, target):
    return member(name, kind=tarfile.LNKTYPE, link=target)


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def write(root, layers, blob_of=lambda data: data, diff_id=digest, **config):
    blobs = root / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def put(data, media):
        name = digest(data)
        (blobs / name[7:]).write_bytes(blob_of(data) if "layer" in media else data)
        return {"mediaType": media, "digest": name, "size": len(data)}

    stored = [put(gzip.compress(tar, 1, mtime=0), "application/vnd.oci.image.layer.v1.tar+gzip") for tar in layers]
    image = {"architecture": "amd64", "os": "linux", "config": {"Env": ["PATH=/bin"], "WorkingDir": "/", **config},
             "rootfs": {"type": "layers", "diff_ids": [diff_id(tar) for tar in layers]}}
    manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "config": put(json.dumps(image).encode(), "application/vnd.oci.image.config.v1+json"), "layers": stored}
    index = put(json.dumps(manifest).encode(), "application/vnd.oci.image.manifest.v1+json")
    (root / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [index]}))
    (root / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')


def main():
    root = pathlib.Path(sys.argv[1])
    outside = str(root / "outside")
    write(root / "layers",
          [layer(folder("d"), member("d/kept", "kept"), member("d/gone", "x"), folder("o"), member("o/old", "x"),
                 member("one", "one"), hard("two", "one"), link("abs", "/one"), folder("bin")),
           layer(member("d/.wh.gone", ""), folder("o"), member("o/.wh..wh..opq", ""), member("o/new", "new"),
                 hard("three", "one"), member("/absolute", "absolute"), member("./bin/../dotted", "dotted"))],
          WorkingDir="/d")
    write(root / "escape",
          [layer(link("out", outside), link("up", "../../../../../../../../../.." + outside)),
           layer(member("out/through-link", "bad"), member("up/through-dots", "bad"),
                 member("../../../../../../../../../.." + outside + "/dots", "bad"), member(outside + "/absolute", "bad"),
                 hard("stolen", outside + "/secret"), hard("stolen-up", "../../../../../../../.." + outside + "/secret"))])
    write(root / "mounts", [layer(link("proc", outside), link("dev", outside), link("tmp", outside), link("home", outside),
                                  folder("bin"))])
    write(root / "digest", [layer(member("f", "text"))], blob_of=lambda data: data[:-1] + b"x")
    write(root / "diff_id", [layer(member("f", "text"))], diff_id=lambda data: digest(b"another"))
    zeros = io.BytesIO()
    with tarfile.open(fileobj=zeros, mode="w") as tar:
        info = tarfile.TarInfo("zeros")
        info.size = 256 << 20

        class Zeros(io.RawIOBase):
            def read(self, size=-1):
                return bytes(size)
        tar.addfile(info, Zeros())
    write(root / "bomb", [zeros.getvalue()])
    hole = 2 << 30
    sparse, data = member("sparse", f"1\n{hole}\n0\n".ljust(512, "\0"))
    sparse.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "sparse",
                          "GNU.sparse.realsize": str(hole)}
    write(root / "sparse", [layer((sparse, data))])
    write(root / "devices", [layer(member("null", kind=tarfile.CHRTYPE, mode=0o666), member("pipe", kind=tarfile.FIFOTYPE),
                                   member("suid", "x", mode=0o4755))])


main()
