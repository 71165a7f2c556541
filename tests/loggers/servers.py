#!/usr/bin/env python3
"""A real run's record in the servers of its loggers: servers.py BINARY SOURCE_DIR [OTELCOL].

Starts MLflow and Trackio from the Python that runs this (pip install mlflow trackio), and an OpenTelemetry collector with an OTLP receiver
and the debug exporter. OTELCOL names its program; without it Go builds one of the collector's own modules (collector/). Without Go the traces are left
out, and the last line says so. Trains a few steps and asks each server what it got.
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS), str(TESTS / "app" / "runs")]
import ingot_runs  # noqa: E402
from free_ports import free_port  # noqa: E402
from ingot_runs import check  # noqa: E402

COLLECTOR = """
receivers: {{otlp: {{protocols: {{http: {{endpoint: "127.0.0.1:{port}"}}}}}}}}
exporters: {{debug: {{verbosity: detailed}}}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines: {{traces: {{receivers: [otlp], exporters: [debug]}}}}
"""
EVALUATED = 6  # held-out tasks of each evaluation



def built_collector(folder):
    """The collector's program and, if there is none, the reason."""
    go = shutil.which("go")
    if go is None:
        return None, "no Go is installed that could build a collector"
    done = subprocess.run([go, "build", "-o", f"{folder}/otelcol", "."], cwd=pathlib.Path(__file__).resolve().parent / "collector",
                          capture_output=True, text=True, timeout=1800)
    return (f"{folder}/otelcol", "") if done.returncode == 0 else (None, f"Go could not build a collector: {done.stderr.strip()[-500:]}")


def wait_for(url, process, seconds=180):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        check(process.poll() is None, f"the server of {url} ended: {' '.join(process.args)}")
        try:
            urllib.request.urlopen(url, timeout=2)
            return
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.3)
    check(False, f"{url} does not answer")


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request, timeout=30))


def main():
    binary, source = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    otelcol, left_out = (sys.argv[3], "") if len(sys.argv) > 3 else (None, "")
    with tempfile.TemporaryDirectory(prefix="ingot-loggers-") as folder:
        if otelcol is None:
            otelcol, left_out = built_collector(folder)
            print(f"the traces (OTLP) are left out: {left_out}" if left_out else "a collector was built of its Go modules", flush=True)
        servers, logs = [], {}

        def start(name, argv, **env):
            logs[name] = open(f"{folder}/{name}.log", "w+", encoding="utf-8")
            servers.append(subprocess.Popen(argv, stdout=logs[name], stderr=subprocess.STDOUT, cwd=folder, start_new_session=True,
                                            env={**os.environ, **env}))
            return servers[-1]

        mlflow, trackio, otlp = (f"http://127.0.0.1:{free_port()}" for _ in range(3))
        try:
            wait_for(mlflow + "/health", start("mlflow", [sys.executable, "-m", "mlflow", "server", "--port", mlflow.rsplit(":", 1)[1],
                                                          "--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--workers", "1"]))
            script = f"import trackio, time; trackio.show(open_browser=False, block_thread=True)"
            wait_for(trackio, start("trackio", [sys.executable, "-c", script], TRACKIO_DIR=f"{folder}/trackio", TRACKIO_WRITE_TOKEN="write-token-of-the-test",
                                    GRADIO_SERVER_PORT=trackio.rsplit(":", 1)[1], GRADIO_SERVER_NAME="127.0.0.1"))
            if otelcol:
                pathlib.Path(f"{folder}/otel.yaml").write_text(COLLECTOR.format(port=otlp.rsplit(":", 1)[1]), encoding="utf-8")
                wait_for(otlp, start("otel", [otelcol, "--config", f"{folder}/otel.yaml"]))
            key = pathlib.Path(f"{folder}/trackio.key")
            key.write_text("write-token-of-the-test\n", encoding="utf-8")
            key.chmod(0o600)
            settings = {**ingot_runs.SHORT, "run.name": "logged", "http.dashboard": "false", "loggers.mlflow.url": mlflow,
                        "loggers.mlflow.experiment": "lab", "loggers.trackio.url": trackio, "loggers.trackio.key_file": str(key)}
            if otelcol:
                tasks = pathlib.Path(source, "examples/smoke/eval.jsonl").read_text(encoding="utf-8").splitlines()[:EVALUATED]
                pathlib.Path(f"{folder}/eval.jsonl").write_text("\n".join(tasks) + "\n", encoding="utf-8")
                settings |= {"loggers.otlp.url": otlp, "eval.tasks": f"{folder}/eval.jsonl", "eval.every_versions": "4"}
            ingot = ingot_runs.Ingot(binary, source, folder)
            code, output = ingot.run("train", settings)
            print(output)
            check(code == 0 and "will be sent when the run starts again" not in output, "the run failed, or a logger did not get all")
            rows = [row for row in ingot.metrics("logged") if "reward/mean" in row]
            check_mlflow(mlflow, rows)
            check_trackio(trackio, rows)
            if otelcol:
                check_otlp(logs["otel"], ingot, rows)
        finally:
            for server in servers:
                try:
                    os.killpg(server.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                server.wait(30)
    print(f"passed, but the traces (OTLP) were left out: {left_out}" if left_out else "passed")


def check_mlflow(url, rows):
    api = url + "/api/2.0/mlflow/"
    experiments = post(api + "experiments/search", {"max_results": 10, "filter": "name = 'lab'"})["experiments"]
    runs = post(api + "runs/search", {"experiment_ids": [experiments[0]["experiment_id"]], "max_results": 10})["runs"]
    check(len(runs) == 1 and runs[0]["info"]["run_name"] == "logged" and runs[0]["info"]["status"] == "FINISHED", f"MLflow: {runs}")
    run = runs[0]["info"]["run_id"]
    answer = json.load(urllib.request.urlopen(f"{api}metrics/get-history?run_id={run}&metric_key=reward%2Fmean", timeout=30))
    found = {int(one.get("step", 0)): one["value"] for one in answer["metrics"]}
    check(found == {row["step"]: row["reward/mean"] for row in rows}, f"MLflow has {found}")
    print(f"MLflow has {len(runs[0]['data']['metrics'])} metrics of {len(found)} steps")


def check_trackio(url, rows):
    answer = post(url + "/api/get_metrics_for_run", {"project": "ingot", "run": "logged"})
    metrics = answer["data"]
    check("reward/mean" in json.dumps(metrics), f"Trackio has {metrics}")
    values = post(url + "/api/get_metric_values", {"project": "ingot", "run": "logged", "metric_name": "reward/mean"})["data"]
    found = {one["step"]: one["value"] for one in values}
    check(found == {row["step"]: row["reward/mean"] for row in rows}, f"Trackio has {found}")
    print(f"Trackio has {len(found)} steps")


def check_otlp(log, ingot, rows):
    time.sleep(2)
    log.flush()
    log.seek(0)
    text = log.read()
    count = {name: sum(1 for line in text.splitlines() if line.strip().replace(" ", "") == f"Name:{name}") for name in ("step", "episode", "call", "grading")}
    ended = [record for record in ingot.journal("logged") if "batch" in record or "closed" in record]
    groups = sum(len(record["batch"]["groupIds"]) if "batch" in record else 1 for record in ended)
    print(f"the collector has {count}; {groups} groups ended")
    check(count["step"] == len(rows), f"{count['step']} step spans for {len(rows)} steps")
    trained = sum(len(record["batch"]["groupIds"]) for record in ended if "batch" in record)
    evaluated = sum(row["eval/episodes"] for row in ingot.metrics("logged") if "eval/episodes" in row)
    marked = text.replace(" ", "").count("ingot.purpose:Str(eval)")
    print(f"{marked} episodes of evaluations, {evaluated:.0f} in the record")
    check(marked == evaluated and marked >= 2 * EVALUATED, f"{marked} spans of evaluated episodes, {evaluated} in the record")
    check(count["episode"] == 4 * groups + evaluated, f"{count} spans for {groups} groups of 4, and {evaluated} of evaluations")
    check(count["grading"] == 4 * trained, f"{count} spans; {trained} groups have a reward")  # a dropped group has no such record
    check(count["call"] >= count["episode"], f"{count}")


if __name__ == "__main__":
    main()
