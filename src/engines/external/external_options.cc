#include "engines/external/external_options.h"

#include "base/config.h"

namespace ingot::engines {

namespace {

std::vector<std::string> VllmCommand() {
  return {"VLLM_SERVER_DEV_MODE=1",
          "VLLM_ALLOW_RUNTIME_LORA_UPDATING=1",
          "vllm",
          "serve",
          "${model}",
          "--host",
          "127.0.0.1",
          "--port",
          "${port}",
          "--enable-scale-out",
          "${tokenizer}",
          "--max-model-len",
          "${context}",
          "--dtype",
          "${dtype}",
          "--max-num-seqs",
          "${max_running}",
          "${adapters}"};
}

std::vector<std::string> SglangCommand() {
  return {"python3",
          "-m",
          "sglang.launch_server",
          "--model-path",
          "${model}",
          "--host",
          "127.0.0.1",
          "--port",
          "${port}",
          "--incremental-streaming-output",
          "--disable-overlap-schedule",
          "${tokenizer}",
          "--context-length",
          "${context}",
          "--dtype",
          "${dtype}",
          "--max-running-requests",
          "${max_running}",
          "${adapters}"};
}

}  // namespace

std::vector<std::string> EngineKindNames() { return {"ingot", "vllm", "sglang"}; }

std::unique_ptr<EngineApi> NewEngineApi(EngineKind kind) {
  return kind == EngineKind::kSglang ? NewSglangApi() : NewVllmApi();
}

std::vector<std::string> CommandOf(EngineKind kind, const ExternalOptions& options) {
  if (!options.command.empty()) return options.command;
  return kind == EngineKind::kSglang ? SglangCommand() : VllmCommand();
}

void Bind(base::Schema& schema, ExternalOptions& o) {
  schema.Field("url", &o.url,
               "URL of a running server on this machine, such as http://127.0.0.1:8000; empty: the rollout role starts "
               "`command`");
  schema.Field(
      "workers", &o.workers,
      "URLs of the servers behind the load balancer at `url`, which must read `exchange` too: requests go to `url`, "
      "and weights to each worker. A worker that is down or new gets the newest weights when it responds; empty: "
      "`url` is a server");
  schema.Field("api_key_file", &o.api_key_file, "file with the server's API key; empty: no key is sent");
  schema.Field(
      "command", &o.command,
      "program and arguments that start the server if `url` is empty, optionally preceded by environment "
      "variables as NAME=VALUE; empty: the engine's own (docs/guide/engines.md). ${model} is a model folder, "
      "${port} a free port, ${context} the context length, ${dtype} the weights' type, ${max_running} "
      "rollout.max_running + 1, because verification needs one, ${gpu} the first GPU that no trainer rank or earlier "
      "engine of this machine uses, ${tokenizer} the flags that name the model's "
      "tokenizer, which grammars need, or turn it off, and ${adapters} the flags for adapters if "
      "trainer.lora.rank is set, and otherwise nothing");
  schema.Field("exchange", &o.exchange,
               "folder on this machine through which the server receives weights; a folder in memory is fastest");
  schema.Choice("swap", &o.swap, {"keep", "recompute", "drain", "abort"},
                "what happens to running requests when full weights arrive (adapters never affect running "
                "requests): keep: they keep their KV cache, and later tokens count as kv_mixed; recompute: "
                "their KV cache is recomputed; drain: they finish first; abort: they are aborted and "
                "retried");
  schema.Field("salt", &o.salt,
               "keep a separate prefix cache on the server for each version; required with swap: keep");
  schema.Field("seeds", &o.seeds,
               "send each request's seed; vLLM 0.32 on a CPU crashes when a seeded prompt is computed in chunks");
  schema.Field(
      "verify", &o.verify,
      "after each load, compare the server's log-probs for some ids with those of Ingot's model on the CPU, before "
      "any token is recorded");
  schema.Field("verify_bound", &o.verify_bound,
               "maximum mean difference of these log-probs; 0: 1e-4 for fp32 weights, and 0.15 for others",
               base::NotNegative());
  schema.Field("trial_load", &o.trial_load,
               "load different weights after each start of the server, to find tensors that it does not load; needs "
               "`verify`");
  schema.Field(
      "max_mismatch", &o.max_mismatch,
      "set an engine aside if its mismatch/logprob_abs_diff_mean is larger at three consecutive measured steps, until "
      "its server is restarted; other engines continue, or the run waits; 0: never",
      base::NotNegative());
  schema.Field("start_s", &o.start_s, "seconds that the server may take to start", base::Positive());
  schema.Field("load_s", &o.load_s, "timeout of one call that pauses the server or loads weights, in seconds",
               base::Positive());
  schema.Field("idle_health_s", &o.idle_health_s, "seconds between checks of the server and its weights",
               base::Positive());
}

absl::Status ExternalOptions::Validate(EngineKind kind) const {
  INGOT_RETURN_IF_ERROR(base::CheckBounds(*this));
  if (kind == EngineKind::kIngot) return absl::OkStatus();
  if (!workers.empty() && url.empty()) {
    return absl::InvalidArgumentError(
        "rollout.external.workers is set, but not rollout.external.url: set url to the load balancer in front of them");
  }
  INGOT_RETURN_IF_ERROR(NewEngineApi(kind)->CheckSwap(swap));
  if (!salt && swap == SwapMode::kKeep) {
    return absl::InvalidArgumentError(
        "rollout.external.salt is false and swap is keep: new requests would reuse the KV cache of earlier weights, "
        "and "
        "their tokens would not count as kv_mixed; set salt to true or swap to recompute");
  }
  if (!exchange.starts_with('/')) {
    return absl::InvalidArgumentError(
        "rollout.external.exchange must be an absolute path, because the server opens it too");
  }
  return absl::OkStatus();
}

}  // namespace ingot::engines
