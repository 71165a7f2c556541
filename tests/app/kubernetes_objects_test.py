#!/usr/bin/env python3
"""Holds the objects that `ingot launch --dry-run` prints against the Kubernetes API: kubernetes_objects_test.py BINARY
SOURCE_DIR.

Each object is checked by kubernetes-validate, which carries the API's own schemas, with unknown fields refused. A JobSet is
a kind of its own: the Job inside is checked. Exits with 77 where kubernetes-validate is not installed (`scripts/setup.sh
services` installs it into .venv-services).
"""
import json
import pathlib
import subprocess
import sys
import tempfile

VERSIONS = ("1.30", "1.34")
GROUPS = [{"name": "control", "roles": ["datapool", "scheduler", "agents"], "resources": {"cpu": "4", "memory": "16Gi"}},
          {"name": "front", "roles": ["gateway"], "resources": {"cpu": "2", "memory": "4Gi"}},
          {"name": "trainer", "roles": ["trainer"],
           "resources": {"cpu": "16", "memory": "200Gi", "nvidia.com/gpu": "8"}},
          {"name": "engines", "nodes": 2, "engines": 2, "roles": ["rollout"],
           "resources": {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "2"}}]
SETTINGS = {"run.name": "math-1", "run.root": "/runs", "cluster.launcher": "kubernetes", "cluster.rollout_engines": 4,
            "cluster.groups": json.dumps(GROUPS), "cluster.registry.kind": "etcd",
            "cluster.registry.endpoints": "['etcd:2379']", "cluster.kubernetes.image": "registry.example/ingot:1",
            "cluster.kubernetes.volume_claim": "runs", "cluster.kubernetes.token_secret": "token",
            "cluster.kubernetes.tls_secret": "tls", "cluster.kubernetes.env": '{"PGPASSWORD": "pool/password"}',
            "gateway.admin_key_file": "/run/ingot/admin"}


def check(truth, what):
    if not truth:
        sys.exit(f"kubernetes: FAILED: {what}")


def rendered(binary, source, more):
    argv = [binary, "launch", "configs/smoke.yaml", "--dry-run"]
    for key, value in {**SETTINGS, **more}.items():
        argv += ["--set", f"{key}={value}"]
    done = subprocess.run(argv, cwd=source, capture_output=True, text=True, timeout=60)
    check(done.returncode == 0, f"{argv}: {done.stderr}")
    return done.stdout


def documents(text, python):
    """The YAML documents, read by another library than the one that printed them."""
    script = "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(sys.stdin))))"
    done = subprocess.run([python, "-c", script], input=text, capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout)


def fault(python, one, version, folder):
    """What the API's schema says against an object; empty = nothing."""
    path = pathlib.Path(folder) / "object.yaml"
    path.write_text(json.dumps(one))
    done = subprocess.run([pathlib.Path(python).parent / "kubernetes-validate", "--strict", "-k", version, path],
                          capture_output=True, text=True, timeout=120)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def main():
    binary, source = sys.argv[1:3]
    python = pathlib.Path(source) / ".venv-services/bin/python"
    if not (python.parent / "kubernetes-validate").exists():
        print("SKIPPED kubernetes_objects: no kubernetes-validate here: `scripts/setup.sh services` installs it")
        sys.exit(77)
    checked = 0
    with tempfile.TemporaryDirectory(prefix="ingot-test-") as folder:
        for more in ({}, {"cluster.kubernetes.jobset": "true", "cluster.kubernetes.queue": "team-a",
                          "cluster.kubernetes.pull_secret": "pull"}):
            objects = documents(rendered(binary, source, more), python)
            kinds = sorted(one["kind"] for one in objects)
            check(kinds == sorted(["ConfigMap", "Service", "PodDisruptionBudget", "PodDisruptionBudget", "StatefulSet",
                                   "StatefulSet", "Deployment", "JobSet" if more else "Job"]), kinds)
            config = next(one for one in objects if one["kind"] == "ConfigMap")["data"]["run.yaml"]
            check("math-1" in config and config.count("\n") > 50, f"the configuration: {config}")
            for one in objects:
                if one["kind"] == "JobSet":
                    template = one["spec"]["replicatedJobs"][0]["template"]
                    one = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "inner"}, **template}
                for version in VERSIONS:
                    said = fault(python, one, version, folder)
                    check(not said, f"{one['kind']} under {version}: {said}\n{json.dumps(one, indent=1)}")
                    checked += 1
        # The check itself would find a slip of the pen.
        broken = next(one for one in objects if one["kind"] == "Deployment")
        container = broken["spec"]["template"]["spec"]["containers"][0]
        container["readinessProb"] = container.pop("readinessProbe")
        check("readinessProb" in fault(python, broken, VERSIONS[0], folder), "a wrong field was accepted")
    print(f"kubernetes_objects: passed, {checked} checks")


if __name__ == "__main__":
    main()
