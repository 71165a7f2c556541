"""Tests scripts/gpu_visit.sh without a GPU: fake programs stand for nvidia-smi, ingot, and gpu_check, and each part is killed once."""
import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import gpu_visit  # noqa: E402
VISIT = ROOT / "scripts" / "gpu_visit.sh"
PARTS = ("device", "primitives", "checks", "sanitizer", "smoke", "figures", "model")
STEP = {"step": 0, "mismatch/logprob_abs_diff_max": 0.001, "reward/mean": 0.5}
# The first result of each part that has some before it hangs.
FIRST = {**{part: {"part": part, "first of": part} for part in ("primitives", "checks", "figures")},
         **{part: {"part": part, "step": STEP} for part in ("smoke", "model")}}
# Each fake prints what the real program would, hangs in the part that FAKE_HANG names, and fails in that of FAKE_FAIL (all: in each but device).
HEAD = '#!/bin/bash\nfails() { [[ "$FAKE_FAIL" = "$1" || "$FAKE_FAIL" = all && "$1" != device ]]; }\nhang() { [ "$FAKE_HANG" != "$1" ] || { echo $$ > "$FAKE_FOLDER/now"; mv "$FAKE_FOLDER/now" "$FAKE_FOLDER/in-$1"; sleep 600; }; }\n'
PROGRAMS = {
    "path/nvidia-smi": """hang device
! fails device || { echo 'NVIDIA-SMI has failed'; exit 9; }
echo "Fake Card, ${FAKE_CAPABILITY:-9.0}, 580.65.06, 81559, 12, 345, 2619, 1980, 700.00, 30, Default, Enabled, 5"
""",
    "path/compute-sanitizer": """echo '{"check": "under memcheck", "ok": true}'
hang sanitizer
! fails sanitizer || exit 3
""",
    "archive/bin/gpu_check": """part=checks; [[ " $* " != *" --no-checks "* ]] || part=figures
echo "{\\"first of\\": \\"$part\\"}"
echo 'a warning that is not JSON'
hang $part
! fails $part || exit 1
echo "{\\"second of\\": \\"$part\\"}"
""",
    "archive/bin/gpu_primitives": """[ "$1" = --dumps ] && echo bits > "$2/mma.bin"
echo '{"first of": "primitives"}'
hang primitives
! fails primitives || exit 1
""",
    "archive/bin/ingot": """if [ "$1" = doctor ]; then echo 'ok    GPU         Fake Card'; exit; fi
for word; do case "$word" in run.root=*) root=${word#*=} ;; run.name=*) name=${word#*=} ;; esac; done
mkdir -p "$root/$name"
printf '%s\\n' 'STEP' '{"step": 1, "eval/reward_mean": 0.0}' > "$root/$name/metrics.jsonl"
hang $name
! fails $name || exit 1
""".replace("STEP", json.dumps(STEP)),
    "archive/lib/libingot_cuda.so": "",
}


class Visit:
    """A visit in a folder of its own."""

    def __init__(self, folder, minutes="12", **environment):
        self.folder, self.out = pathlib.Path(folder), pathlib.Path(folder, "out")
        for name, text in PROGRAMS.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(HEAD + text)
            path.chmod(0o755)
        self.environment = {**os.environ, "PATH": f"{self.folder}/path:{os.environ['PATH']}", "FAKE_FOLDER": folder,
                            "INGOT_TORCH_DIR": folder, "FAKE_HANG": "", "FAKE_FAIL": "", **environment}
        self.command = [str(VISIT), str(self.folder / "archive"), "--out", str(self.out), "--minutes", minutes]

    def run(self):
        return subprocess.run(self.command, env=self.environment, capture_output=True, text=True, timeout=700, check=False)

    def start(self):
        return subprocess.Popen(self.command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def rows(self):
        return [json.loads(line) for line in (self.out / "results.jsonl").read_text().splitlines()]

    def verdicts(self):
        return {row["part"]: row["verdict"] for row in self.rows() if "verdict" in row}


def wait_until(holds, seconds=300):
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(f"waited {seconds} s")
        time.sleep(0.05)


def wait_for(path):
    wait_until(path.exists)


class GpuVisit(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.TemporaryDirectory(prefix="ingot-gpu-visit-")
        self.addCleanup(self.place.cleanup)
        self.folder = self.place.name

    def test_a_whole_visit(self):
        visit = Visit(self.folder)
        done = visit.run()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(visit.verdicts(), dict.fromkeys(PARTS, "ok"))
        rows = visit.rows()
        self.assertIn({"part": "checks", "second of": "checks"}, rows)
        self.assertIn("a warning that is not JSON", (visit.out / "checks.log").read_text())
        self.assertTrue(any(row.get("name") == "Fake Card" and row["driver_version"] == "580.65.06" for row in rows), rows)
        self.assertTrue(any(row["part"] == "model" and row.get("mismatch/logprob_abs_diff_max") == 0.001 for row in rows))
        with tarfile.open(visit.out / "gpu-visit.tar.gz") as packed:
            names = packed.getnames()
        self.assertIn("gpu-visit/results.jsonl", names)
        self.assertIn("gpu-visit/table.txt", names)
        self.assertIn("gpu-visit/dumps/mma.bin", names)
        again = visit.run()
        self.assertEqual(again.returncode, 2, "results of a visit are never mixed with another's")

    def test_a_killed_visit_keeps_the_results_so_far(self):
        for place, part in enumerate(PARTS):
            with self.subTest(part), tempfile.TemporaryDirectory(prefix="ingot-gpu-visit-") as folder:
                visit = Visit(folder, FAKE_HANG=part)
                process = visit.start()
                inside = pathlib.Path(folder, f"in-{part}")
                wait_for(inside)
                if part in FIRST:  # its first result is on its way
                    wait_until(lambda: FIRST[part] in visit.rows())
                process.kill()
                process.communicate()
                os.killpg(os.getpgid(int(inside.read_text())), signal.SIGKILL)  # the part, which nobody supervises now
                self.assertEqual(list(visit.verdicts()), list(PARTS[:place]))
                if part in FIRST:
                    self.assertIn(FIRST[part], visit.rows())

    def test_a_stopped_visit_packs_the_results_so_far(self):
        visit = Visit(self.folder, FAKE_HANG="checks")
        process = visit.start()
        wait_for(pathlib.Path(self.folder, "in-checks"))
        process.send_signal(signal.SIGTERM)
        output = process.communicate(timeout=300)[0]
        self.assertEqual(process.returncode, 1, output)
        self.assertEqual(visit.verdicts(), {"device": "ok", "primitives": "ok", "checks": "failed"})
        self.assertIn("the visit was stopped", output)
        self.assertTrue((visit.out / "gpu-visit.tar.gz").exists())

    def test_a_part_that_hangs_costs_only_itself(self):
        """The limit counts from the moment at which the part hangs, so that a slow machine does not fail the parts before it."""
        fakes = Visit(self.folder, FAKE_HANG="checks")
        fakes.out.mkdir()

        class LimitedVisit(gpu_visit.Visit):
            def limit(self, process, deadline):
                if deadline < self.start:
                    wait_for(pathlib.Path(fakes.folder, "in-checks"))
                    wait_until(lambda: FIRST["checks"] in self.results.rows)
                super().limit(process, deadline)

        arguments = argparse.Namespace(archive=fakes.folder / "archive", standin=None, minutes=12)
        with unittest.mock.patch.dict(os.environ, fakes.environment):
            visit = LimitedVisit(arguments, fakes.out)
            self.assertFalse(visit.run_part("checks", visit.start - 1))
            self.assertTrue(visit.run_part("figures", visit.start + 300))
        self.assertIn(FIRST["checks"], fakes.rows())
        self.assertEqual(fakes.verdicts(), {"checks": "failed", "figures": "ok"})
        self.assertTrue(any("stopped at its limit" in row.get("why", "") for row in fakes.rows()))

    def test_the_parts_end_within_the_visit(self):
        ends = [end for _, end in gpu_visit.SCHEDULE]
        self.assertEqual(ends, sorted(set(ends)))
        self.assertLess(ends[-1], gpu_visit.WHOLE)
        self.assertEqual(tuple(name for name, _ in gpu_visit.SCHEDULE), PARTS)

    def test_a_part_that_fails_costs_only_itself(self):
        visit = Visit(self.folder, FAKE_FAIL="all")
        done = visit.run()
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual(visit.verdicts(), {**dict.fromkeys(PARTS, "failed"), "device": "ok"})
        self.assertTrue((visit.out / "gpu-visit.tar.gz").exists())

    def test_a_machine_without_a_usable_gpu_ends_with_one_reason(self):
        for environment, why in (({"FAKE_CAPABILITY": "7.5"}, "Fake Card has capability 7.5; the kernels need 8.0"),
                                 ({"FAKE_FAIL": "device"}, "nvidia-smi: NVIDIA-SMI has failed")):
            with self.subTest(why), tempfile.TemporaryDirectory(prefix="ingot-gpu-visit-") as folder:
                visit = Visit(folder, **environment)
                done = visit.run()
                self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
                self.assertIn(why, done.stdout)
                self.assertEqual(list(visit.verdicts()), ["device"])

    def test_an_archive_without_cuda_is_an_error(self):
        visit = Visit(self.folder)
        (visit.folder / "archive/lib/libingot_cuda.so").unlink()
        done = visit.run()
        self.assertEqual(done.returncode, 2)
        self.assertIn("make cuda bundle", done.stdout)
        gone = subprocess.run([VISIT, "/nowhere.tar.gz"], capture_output=True, text=True, check=False)
        self.assertEqual(gone.returncode, 2)
        self.assertIn("/nowhere.tar.gz does not exist", gone.stderr)

    def test_it_unpacks_an_archive(self):
        visit = Visit(self.folder)
        with tarfile.open(visit.folder / "bundle.tar.gz", "w:gz") as packed:
            packed.add(visit.folder / "archive", arcname="ingot")
        visit.command[1] = str(visit.folder / "bundle.tar.gz")
        self.assertEqual(visit.run().returncode, 0)
        self.assertEqual(visit.verdicts(), dict.fromkeys(PARTS, "ok"))


if __name__ == "__main__":
    unittest.main()
