#!/usr/bin/env python3
"""Holds the objects that `ingot launch --dry-run` prints against the Kubernetes API: kubernetes_objects_test.py BINARY
SOURCE_DIR.

Among them are those of the example in docs/guide/cluster.md. Each object is checked by kubernetes-validate, which carries the API's own schemas, with unknown fields refused. A JobSet is
a kind of its own: the Job inside is checked so, and the whole by JobSet's own schema. Exits with 77 where
kubernetes-validate is not installed. `scripts/setup.sh services` installs it into .venv-services, and fetches that schema
where `go` is there.
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
            "gateway.admin_key_file": "/run/ingot/admin", "http.host": "0.0.0.0", "http.port": 8080,
            "gateway.tls.allow_plaintext": "true"}


POOLS = [{"name": "control", "roles": ["scheduler", "agents"], "resources": {"cpu": "4", "memory": "16Gi"}}, *GROUPS[1:],
         {"name": "pools", "nodes": 3, "roles": ["datapool"], "resources": {"cpu": "2", "memory": "4Gi"}}]


def check(truth, what):
    if not truth:
        sys.exit(f"kubernetes: FAILED: {what}")


def rendered(binary, source, more):
    argv = [binary, "launch", "configs/smoke.yaml", "--dry-run"]
    for key, value in {**SETTINGS, **more}.items():
        argv += ["--set", f"{key}={value}"]
    return planned(argv, source)


def planned(argv, source):
    done = subprocess.run(argv, cwd=source, capture_output=True, text=True, timeout=240)
    check(done.returncode == 0, f"{argv}: {done.stderr}")
    return done.stdout


# Prints two YAML texts as one in JSON: the keys of the second one over those of the first.
JOIN = """
import json, sys, yaml
def over(below, above):
    both = isinstance(below, dict) and isinstance(above, dict)
    return {**below, **{key: over(below.get(key), value) for key, value in above.items()}} if both else above
print(json.dumps(over(*(yaml.safe_load(text) for text in json.load(sys.stdin)))))
"""


def example(binary, source, python):
    """The objects of the example in docs/guide/cluster.md, beside the keys of configs/smoke.yaml."""
    page = (pathlib.Path(source) / "docs/guide/cluster.md").read_text()
    shown = page.split("\n## Kubernetes\n")[1].split("```yaml\n")[1].split("```")[0]
    smoke = (pathlib.Path(source) / "configs/smoke.yaml").read_text()
    done = subprocess.run([python, "-c", JOIN], input=json.dumps([smoke, shown]), capture_output=True, text=True, timeout=60)
    check(done.returncode == 0, done.stderr[-3000:])
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(done.stdout)
        file.flush()
        return planned([binary, "launch", file.name, "--dry-run"], source)


def check_example(objects):
    """Agents in one pod reach the gateway in another: by a Service that finds its pod, whose address every pod is told."""
    check(not any(fault for _, faults in objects for fault in faults), f"the example of docs/guide/cluster.md: {objects}")
    named = {(one["kind"], one["metadata"]["name"]): one for one, _ in objects}
    service = named["Service", "ingot-math-1-lb"]
    check(service["metadata"]["namespace"] == "team" and service["spec"]["ports"][0]["port"] == 8080, service)
    pods = {key: one["spec"]["template"] for key, one in named.items() if "template" in one.get("spec", {})}
    behind = [key for key, pod in pods.items() if service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()]
    check(behind == [("Deployment", "ingot-math-1-front")], f"behind the Service: {behind}")
    for key, pod in pods.items():
        check("gateway.public_url=http://ingot-math-1-lb.team:8080" in pod["spec"]["containers"][0]["args"], f"{key}: {pod}")


# Reads YAML documents, by another library than the one that printed them, and prints them with the faults that the API's
# schemas find in each, as JSON: VALIDATE JOBSET VERSION ... One process for all: each start of the library costs seconds.
# JOBSET: the file that defines the kind JobSet; missing = its schema finds nothing. The API server drops unknown fields, so
# a definition does not forbid them: here they are faults.
VALIDATE = """
import json, os, sys, jsonschema, kubernetes_validate, yaml
def closed(schema):
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {key: closed(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        schema.setdefault("additionalProperties", False)
    return schema
jobset = None
if os.path.exists(sys.argv[1]):
    kind = yaml.load(open(sys.argv[1]), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    version = next(one for one in kind["spec"]["versions"] if one["name"] == "v1alpha2" and one["served"])
    jobset = jsonschema.Draft202012Validator(closed(version["schema"]["openAPIV3Schema"]))
def fault(one, version):
    try:
        kubernetes_validate.validate(one, version, strict=True)
    except Exception as error:
        return str(error)[:2000]
    return ""
answer = []
for text in json.load(sys.stdin):
    for one in yaml.safe_load_all(text):
        checked, own = one, []
        if one["kind"] == "JobSet":
            checked = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "inner"},
                       **one["spec"]["replicatedJobs"][0]["template"]}
            own = [f"{error.json_path}: {error.message[:300]}" for error in jobset.iter_errors(one)] if jobset else []
        answer.append([one, [fault(checked, version) for version in sys.argv[2:]], own])
print(json.dumps(answer))
"""


def validated(python, jobset, texts):
    """Each object of the texts, what the schema of each version says against it (empty = nothing), and JobSet's own."""
    done = subprocess.run([python, "-c", VALIDATE, jobset, *VERSIONS], input=json.dumps(texts), capture_output=True,
                          text=True, timeout=240)
    check(done.returncode == 0, done.stderr[-3000:])
    return json.loads(done.stdout)


def check_jobsets(sets):
    """The JobSet as it is printed, and with a slip of the pen each: of the set, of its Job, of a pod, of a kind."""
    right, *wrong = [(one["metadata"]["name"], faults) for one, _, faults in sets]
    check(right == ("ingot-math-1-trainer", []), f"the JobSet: {right}")
    for place, (_, faults) in zip(("maxRestart", "parallelsim", "readinessProb", "replicas"), wrong, strict=True):
        check(len(faults) == 1 and place in faults[0], f"a wrong {place}: {faults}")


def main():
    binary, source = sys.argv[1:3]
    python = pathlib.Path(source) / ".venv-services/bin/python"
    if not (python.parent / "kubernetes-validate").exists():
        print("SKIPPED kubernetes_objects: no kubernetes-validate here: `scripts/setup.sh services` installs it")
        sys.exit(77)
    plain = rendered(binary, source, {})
    full = rendered(binary, source, {"cluster.kubernetes.jobset": "true", "cluster.kubernetes.queue": "team-a",
                                     "cluster.kubernetes.pull_secret": "pull"})
    pools = rendered(binary, source, {"cluster.groups": json.dumps(POOLS), "cluster.datapools": 3,
                                      "datapool.backend": "postgres", "datapool.postgres.url": "host=db.team dbname=ingot"})
    jobset = python.parent.parent / "jobset.yaml"
    sets = [full, full.replace("maxRestarts", "maxRestart"), full.replace("parallelism", "parallelsim"),
            full.replace("readinessProbe", "readinessProb"), full.replace("replicas: 1", "replicas: one")]
    only = [document for text in sets for document in text.split("---\n") if 'kind: "JobSet"' in document]
    shown = example(binary, source, python)
    texts = [plain, full, plain.replace("readinessProbe", "readinessProb"), pools, shown, *only]
    answers = validated(python, jobset, texts)
    if jobset.exists():
        check_jobsets(answers[-len(sets):])
    objects = [(one, faults) for one, faults, _ in answers[:-len(sets)]]
    first = next(i for i, (one, _) in enumerate(objects) if one["metadata"]["name"] == "ingot-math-1-pools")
    first = max(i for i in range(first) if objects[i][0]["kind"] == "ConfigMap")
    last = max(i for i, (one, _) in enumerate(objects) if one["kind"] == "ConfigMap")
    check_example(objects[last:])
    objects, with_pools = objects[:first], objects[first:last]
    for one, faults in with_pools:
        check(not any(faults), f"{one['kind']}: {faults}\n{json.dumps(one, indent=1)}")
    named = {(one["kind"], one["metadata"]["name"]): one["spec"] for one, _ in with_pools if "spec" in one}
    fronts, service = named["StatefulSet", "ingot-math-1-pools"], named["Service", "ingot-math-1"]
    check(fronts["replicas"] == 3 and fronts["serviceName"] == "ingot-math-1", fronts)
    check(service["selector"].items() <= fronts["template"]["metadata"]["labels"].items(), "the Service has no pool behind it")
    check(named["PodDisruptionBudget", "ingot-math-1-pools"]["maxUnavailable"] == 1, "no process of the pool may be evicted")
    expected = ["ConfigMap", "Service", "Service", "PodDisruptionBudget", "PodDisruptionBudget", "StatefulSet", "StatefulSet",
                "Deployment"]
    third = len(objects) // 3
    for part, trainer in ((objects[:third], "Job"), (objects[third:2 * third], "JobSet")):
        kinds = sorted(one["kind"] for one, _ in part)
        check(kinds == sorted([*expected, trainer]), kinds)
        for one, faults in part:
            check(not any(faults), f"{one['kind']}: {faults}\n{json.dumps(one, indent=1)}")
    config = next(one for one, _ in objects if one["kind"] == "ConfigMap")["data"]["run.yaml"]
    check("math-1" in config and config.count("\n") > 50, f"the configuration: {config}")
    # The check itself finds a slip of the pen.
    check(all(any(faults) for one, faults in objects[2 * third:] if one["kind"] == "Deployment"), "a wrong field passed")
    print(f"kubernetes_objects: passed, {2 * third + len(with_pools)} objects under {len(VERSIONS)} versions"
          f"{'' if jobset.exists() else '; the schema of JobSet is not here (`scripts/setup.sh services` with go)'}")


if __name__ == "__main__":
    main()
