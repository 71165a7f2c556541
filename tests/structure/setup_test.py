#!/usr/bin/env python3
"""Tests scripts/setup.sh with fake package managers: what it installs, what it does without, and what a second run repeats."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
# Every system package is installed, except the one that FAKE_MISSING names.
DPKG = """#!/bin/sh
for word; do [ "$word" != "$FAKE_MISSING" ] || exit 1; done
printf 'install ok installed'
"""
# pip of .venv: notes what it is to install, and fails for a package whose name has $FAKE_ABSENT in it.
PYTHON = """#!/bin/sh
shift 2
echo "$*" >>pip-calls
case "$*" in *"${FAKE_ABSENT:-none}"*) echo "ERROR: No matching distribution found" >&2; exit 1 ;; esac
"""


class Setup(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory(prefix="ingot-setup-")
        self.addCleanup(place.cleanup)
        self.folder = pathlib.Path(place.name)
        (self.folder / "scripts").mkdir()
        shutil.copy(SOURCE / "scripts/setup.sh", self.folder / "scripts/setup.sh")
        self.program("path/dpkg-query", DPKG)
        self.program("path/npm", "#!/bin/sh\n")
        self.program("path/id", "#!/bin/sh\necho 1000\n")
        self.program("path/sudo", "#!/bin/sh\nexit 1\n")
        self.program(".venv/bin/python", PYTHON)

    def program(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def run_setup(self, *words, **environment):
        """The exit code and the output, and the packages of each call of pip."""
        calls = self.folder / "pip-calls"
        calls.unlink(missing_ok=True)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("INGOT_", "FAKE_"))}
        done = subprocess.run([self.folder / "scripts/setup.sh", *words], capture_output=True, text=True, check=False, timeout=60,
                              env={**kept, "PATH": f"{self.folder}/path:{os.environ['PATH']}", **environment})
        return done.returncode, done.stdout + done.stderr, calls.read_text().splitlines() if calls.exists() else []

    def test_a_second_run_installs_nothing(self):
        code, output, calls = self.run_setup()
        self.assertEqual(code, 0, output)
        self.assertEqual([word for word in ("torch==", "math-verify==", "nvidia-cuda-nvcc==") for call in calls if word in call],
                         ["torch==", "math-verify==", "nvidia-cuda-nvcc=="], calls)
        self.assertEqual(self.run_setup(), (0, "", []))

    def test_it_does_without_the_compiler_and_asks_for_it_once(self):
        for absent in ("nvidia-cuda-nvcc", "nvidia-nvvm", "nvidia-cuda-crt", "nvidia-cuda-cccl"):
            with self.subTest(absent):
                (self.folder / ".venv/.ingot-compiler").unlink(missing_ok=True)
                code, output, _ = self.run_setup(FAKE_ABSENT=absent)
                self.assertEqual(code, 0, output)
                self.assertIn("the CUDA compiler was not installed; tests of CUDA kernels are left out until `scripts/setup.sh cuda`", output)
                self.assertEqual(self.run_setup(FAKE_ABSENT=absent), (0, "", []))
        code, output, calls = self.run_setup("cuda", FAKE_ABSENT="nvidia-nvvm")
        self.assertNotEqual(code, 0, "whoever asks for the compiler is told")
        self.assertIn("nvidia-nvvm", calls[0])
        code, output, calls = self.run_setup("cuda")
        self.assertEqual((code, len(calls)), (0, 1), output)

    def test_torch_and_the_headers_are_required(self):
        for absent in ("torch==", "nvidia-cuda-runtime", "nvidia-cuda-cupti"):
            with self.subTest(absent):
                code, output, calls = self.run_setup(FAKE_ABSENT=absent)
                self.assertNotEqual(code, 0, output)
                self.assertEqual(len(calls), 1, calls)
        code, _, calls = self.run_setup()
        self.assertEqual(code, 0)
        self.assertIn("torch==", calls[0], "it tries again")

    def test_an_installed_toolkit_is_used(self):
        _, _, calls = self.run_setup(INGOT_CUDA_HOME="/opt/cuda")
        self.assertFalse([call for call in calls if "nvidia-cuda-nvcc" in call], calls)
        shutil.rmtree(self.folder / ".venv")
        self.program(".venv/bin/python", PYTHON)
        _, _, calls = self.run_setup(INGOT_TORCH_DIR="/opt/torch")
        self.assertEqual([call for call in calls if "torch" in call or "nvidia" in call], [], calls)

    def test_without_the_right_to_install_it_names_the_packages(self):
        code, output, calls = self.run_setup(FAKE_MISSING="ninja-build")
        self.assertEqual((code, calls), (1, []), output)
        self.assertIn("apt-get install -y --no-install-recommends ninja-build", output)

    def test_an_unknown_profile_is_an_error(self):
        self.assertEqual(self.run_setup("gpu")[0], 2)


if __name__ == "__main__":
    unittest.main()
