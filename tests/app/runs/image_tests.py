#!/usr/bin/env python3
"""The files below docker/: image_tests.py BINARY SOURCE_DIR CASE.

Cases: compose (compose.yaml is valid under the Compose Specification's schema), image (the CPU image is built by buildah from
this build's binary, without a container engine, and learns the smoke task inside). Exits with 77 where the programs are
missing (`scripts/setup.sh services`).
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from ingot_runs import check, skip

# A third of the smoke task's steps: the reward rises from a quarter to a half, and the run's exit code says so.
LEARNS = ["--set", "scheduler.total_steps=16", "--set", "goal.last_reward_above=0.35"]
SCHEMA = ".venv-services/package/lib/compose-spec/schema/compose-spec.json"


def missing(what):
    skip(f"{what}: `scripts/setup.sh services` installs it")


def case_compose(_, source):
    python = source / ".venv-services/bin/python"
    if not python.exists() or not (source / SCHEMA).exists():
        missing("no schema of the Compose Specification here")
    script = ("import json, sys, yaml, jsonschema; schema = json.load(open(sys.argv[1])); "
              "file = yaml.safe_load(open(sys.argv[2])); jsonschema.validate(file, schema); "
              "file['services']['ingot']['comand'] = 'x'; "
              "good = jsonschema.validators.validator_for(schema)(schema).is_valid(file); sys.exit(3 if good else 0)")
    done = subprocess.run([python, "-c", script, source / SCHEMA, source / "docker/compose.yaml"], capture_output=True,
                          text=True, timeout=120)
    check(done.returncode == 0, f"exit code {done.returncode} (3 = a wrong key was accepted): {done.stderr[-2000:]}")
    services = json.loads(subprocess.run(
        [python, "-c", "import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1]))['services']))",
         source / "docker/compose.yaml"], capture_output=True, text=True, timeout=60, check=True).stdout)
    check(sorted(services) == ["etcd", "ingot", "postgres"], sorted(services))


class Builder:
    """buildah with a store of its own."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "policy.json").write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
        self.argv = ["buildah", "--root", folder / "store", "--runroot", folder / "run", "--storage-driver", "overlay"]
        self.policy = ["--signature-policy", folder / "policy.json"]

    def run(self, *argv, seconds=600, cwd=None):
        done = subprocess.run([*self.argv, *argv], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=seconds)
        check(done.returncode == 0, f"buildah {argv[0]}: {done.stdout[-3000:]}")
        return done.stdout.strip().splitlines()

    def base(self, tree):
        container = self.run("from", "scratch")[-1]
        self.run("add", "-q", container, tree, "/")
        self.run("commit", "-q", *self.policy, container, "localhost/debian:12")
        self.run("rm", container)


def base_tree(folder):
    """Debian's minimal tree; a kept one is used again."""
    kept = pathlib.Path(os.environ.get("INGOT_IMAGE_BASE", folder / "base"))
    if not (kept / "usr/bin/apt-get").exists():
        done = subprocess.run(["debootstrap", "--variant=minbase", "--include=ca-certificates,openssl", "bookworm", kept],
                              capture_output=True, text=True, timeout=1200)
        check(done.returncode == 0, f"debootstrap: {done.stdout[-2000:]}")
    return kept


def case_image(binary, source):
    for program in ("buildah", "debootstrap"):
        if shutil.which(program) is None:
            missing(f"no {program} here")
    if os.getuid() != 0:
        skip("only root can build without an engine")
    subprocess.run(["scripts/image.sh", binary.parent], cwd=source, check=True, timeout=600)
    with tempfile.TemporaryDirectory(prefix="ingot-image-") as name:
        folder = pathlib.Path(name)
        builder = Builder(folder)
        try:
            builder.base(base_tree(folder))
            builder.run("build", *builder.policy, "--isolation", "chroot", "--pull=never", "-t", "ingot:test", "-f",
                        source / "docker/Dockerfile.runtime", source / "build/image", seconds=1200)
            container = builder.run("from", "--pull=never", *builder.policy, "localhost/ingot:test")[-1]
            version = builder.run("run", "--isolation", "chroot", container, "--", "ingot", "--version")[-1]
            check(version.startswith("ingot "), version)
            user = builder.run("run", "--isolation", "chroot", container, "--", "id", "-u")[-1]
            check(user == "1000", f"the image's user is {user}")
            said = builder.run("run", "--isolation", "chroot", container, "--", "ingot", "train", "configs/smoke.yaml",
                               "--set", "run.root=/runs", "--set", "http.port=0", *LEARNS, seconds=2400)
            check(any(line.startswith("goal met: ") for line in said), "\n".join(said[-30:]))
            print(said[-1])
        finally:
            subprocess.run([*builder.argv, "rm", "--all"], capture_output=True, timeout=120)
            subprocess.run([*builder.argv, "rmi", "--all", "--force"], capture_output=True, timeout=120)


def main():
    binary, source, case = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
    globals()[f"case_{case}"](binary, source)
    print(f"{case}: passed")


if __name__ == "__main__":
    main()
