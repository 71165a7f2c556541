#include "app/role_schemas.h"

#include <tuple>

#include "trainer/presets.h"

namespace ingot::app {

void BindScheduler(base::Schema& schema, scheduler::SchedulerOptions& o) {
  schema.Field("scheduler.total_steps", &o.total_steps, "optimizer steps of the run");
  schema.Field("scheduler.groups_per_step", &o.groups_per_step, "P: groups that one optimizer step trains");
  schema.Field("scheduler.group_size", &o.group_size, "samples per task");
  schema.Field("scheduler.max_staleness", &o.max_staleness, "S, in policy versions; 0: on-policy");
  schema.Field("scheduler.window_fraction", &o.window_fraction,
               "W = max(1, floor(this x (S+1)P)): how far past the oldest group batches may reach; (0, 1]");
  schema.Field("scheduler.drop_zero_variance", &o.drop_zero_variance,
               "drop groups whose rewards are all equal, and admit others in their place");
  schema.Field("scheduler.max_drops_per_batch", &o.max_drops_per_batch,
               "after so many drops since the last batch, equal groups are trained all the same; 0: no limit");
  schema.Field("scheduler.group_deadline_s", &o.group_deadline_seconds,
               "seconds from a group's first episode to its last; past it the group fails");
  schema.Field("scheduler.max_attempts", &o.max_attempts, "failed attempts of one sample before its group fails");
  schema.Field("scheduler.max_concurrent_episodes", &o.max_concurrent_episodes,
               "episodes running at a time, evaluation included; 0: no bound of its own");
  schema.Field("scheduler.retry_after_ms", &o.retry_after_ms, "hint given with 429");
  schema.Field("scheduler.max_active_evals", &o.max_active_evals, "evaluations running at a time");
  schema.Field("scheduler.max_eval_episodes", &o.max_eval_episodes, "tasks times avg_n of one evaluation");
}

namespace {

void BindOptimizer(base::Schema& schema, const std::string& prefix, trainer::OptimizerOptions& o) {
  schema.Field(prefix + "learning_rate", &o.learning_rate, "AdamW step size at its peak");
  schema.Field(prefix + "warmup_steps", &o.warmup_steps, "steps of linear rise to the peak; 0: none");
  schema.Choice(prefix + "decay", &o.decay, {"cosine", "linear", "constant"}, "after the warm-up");
  schema.Field(prefix + "min_lr_ratio", &o.min_lr_ratio, "of the peak, where cosine and linear end; [0, 1]");
  schema.Field(prefix + "beta1", &o.beta1, "AdamW: decay of the first moment; [0, 1)");
  schema.Field(prefix + "beta2", &o.beta2, "AdamW: decay of the second moment; [0, 1)");
  schema.Field(prefix + "eps", &o.eps, "AdamW: added to the root of the second moment");
  schema.Field(prefix + "weight_decay", &o.weight_decay, "decoupled, on matrices only; 0: off");
  schema.Field(prefix + "grad_clip_norm", &o.grad_clip_norm, "greatest global gradient norm; 0: no clipping");
}

}  // namespace

void BindTrainer(base::Schema& schema, trainer::TrainerOptions& o) {
  schema.Choice("trainer.preset", &o.preset, trainer::PresetNames(),
                "a published recipe: sets those of the trainer's keys that nothing else sets");
  schema.Choice("trainer.objective", &o.objective, {"cispo", "ppo_clip", "gspo", "opmd", "dpo"}, "the policy loss");
  schema.Field("trainer.eps_clip_low", &o.eps_clip_low, "importance ratios below 1 - this are clipped; >= 1: never");
  schema.Field("trainer.eps_clip_high", &o.eps_clip_high, "importance ratios above 1 + this are clipped");
  schema.Field("trainer.dual_clip", &o.dual_clip,
               "ppo_clip: a negative advantage counts at most this many times; above 1; 0: off");
  schema.Field("trainer.importance_cap", &o.importance_cap,
               "ppo_clip: truncated importance weights between rollout's and trainer's policy, cut at this; 0: off");
  schema.Field("trainer.opmd_tau", &o.opmd_tau, "opmd: weight of the squared sequence log-ratio, halved");
  schema.Field("trainer.dpo_beta", &o.dpo_beta, "dpo: factor of a pair's margin");
  schema.Choice("trainer.loss_aggregation", &o.loss_aggregation, {"token", "sequence", "prompt", "constant"},
                "normaliser of the loss: over the batch's tokens, per episode, per group, or a constant per episode");
  schema.Field("trainer.loss_constant_tokens", &o.loss_constant_tokens,
               "tokens that loss_aggregation constant divides an episode's sum by");
  schema.Choice("trainer.advantage_baseline", &o.advantage_baseline, {"mean", "leave_one_out", "batch", "none"},
                "what is subtracted from a return: the group's mean, that of its other samples, the batch's, nothing");
  schema.Choice("trainer.advantage_normalization", &o.advantage_normalization, {"none", "group", "batch"},
                "divide advantages by a standard deviation");
  schema.Choice("trainer.advantage_credit", &o.advantage_credit, {"outcome", "reward_to_go"},
                "what a turn is credited with: the episode's whole return, or what it earned from that turn on");
  schema.Field("trainer.filter_zero_variance", &o.filter_zero_variance,
               "groups without any advantage bear no loss and count in no normaliser");
  schema.Choice("trainer.train_segments", &o.train_segments, {"all", "current_version", "max_age"},
                "which sampled tokens bear loss, by the version that sampled them; the others are context");
  schema.Field("trainer.train_segments_max_age", &o.train_segments_max_age,
               "max_age: versions between sampling and the step, at most");
  schema.Field("trainer.kl_coefficient", &o.kl_coefficient, "weight of KL(rollout policy || policy); 0: off");
  schema.Field("trainer.reference_kl_coefficient", &o.reference_kl_coefficient,
               "weight of KL(policy || reference policy), estimator k3; 0: off");
  schema.Field("trainer.reference_path", &o.reference_path,
               "model folder of the reference policy; empty: the weights the run starts from");
  schema.Field("trainer.entropy_coefficient", &o.entropy_coefficient, "weight of the entropy bonus; 0: off");
  schema.Field("trainer.max_skipped_steps", &o.max_skipped_steps,
               "steps in a row without loss tokens or with a loss that is not finite; one more stops the run");
  schema.Field("trainer.optimizer_reset_every", &o.optimizer_reset_every,
               "steps between fresh states of the optimizer; 0: never");
  BindOptimizer(schema, "trainer.", o.optimizer);
  schema.Field("trainer.micro_batch_tokens", &o.micro_batch_tokens,
               "merged tokens per forward and backward pass; bounds memory, changes results by rounding only");
  schema.Field("trainer.checkpoint_layers", &o.checkpoint_layers,
               "keep every layer's input alone and run it again in the backward pass: less memory, same gradients");
  schema.Field("trainer.recompute_prefix", &o.recompute_prefix,
               "run what later micro-batches see twice instead of keeping its activations");
  schema.Choice("trainer.dtype", &o.dtype, {"model", "fp32", "bf16"},
                "of the weights that are trained (bf16: with fp32 masters and gradient sums); model: as they come");
  schema.Field("trainer.memory_limit_mb", &o.memory_limit_mb,
               "memory of a step, model and optimizer included; one that needs more is refused; 0: what is left");
  schema.Field("trainer.logits_chunk_elements", &o.logits_chunk_elements, "elements of the logits matrix held at once");
  schema.Field("trainer.probe_tokens", &o.probe_tokens,
               "freshly sampled tokens scored before each step, for mismatch/*; 0: no probe");
  schema.Field("trainer.checkpoint_every", &o.checkpoint_every, "steps between checkpoints; 0: only after the last");
  schema.Field("trainer.keep_checkpoints", &o.keep_checkpoints, "newest ones kept");
  for (auto* stage : {&o.sft, &o.dpo}) {
    const std::string name = stage == &o.sft ? "sft" : "dpo";
    schema.Field(name + ".epochs", &stage->epochs, "passes over data." + name + "; 0 with max_steps 0: no such stage");
    schema.Field(name + ".max_steps", &stage->max_steps, "optimizer steps of the stage; 0: as many as the epochs take");
    schema.Field(name + ".batch_size", &stage->batch_size,
                 stage == &o.sft ? "conversations per optimizer step" : "pairs per optimizer step");
    BindOptimizer(schema, name + ".", stage->optimizer);
  }
}

void BindRollout(base::Schema& schema, rollout::EngineOptions& o) {
  schema.Field("rollout.kv_block_tokens", &o.kv_block_tokens, "tokens per KV block; 1 to 1024");
  schema.Field("rollout.kv_cache_tokens", &o.kv_cache_tokens, "size of the KV cache in tokens");
  schema.Field("rollout.max_running", &o.max_running, "requests in one batch");
  schema.Field("rollout.max_waiting", &o.max_waiting, "requests beyond those; one more is refused");
  schema.Field("rollout.max_batch_tokens", &o.max_batch_tokens,
               "tokens in one forward pass (decode and prompt chunks)");
  schema.Field("rollout.context_length", &o.context_length, "tokens of a request; 0: what the model was made for");
  schema.Field("rollout.prefix_cache", &o.prefix_cache, "share the KV of equal prefixes");
  schema.Field("rollout.max_retained_versions", &o.max_retained_versions, "versions held beside the newest");
  schema.Field("rollout.request_deadline_ms", &o.request_deadline_ms, "from arrival to the last token; 0: none");
  schema.Field("rollout.max_update_bytes", &o.max_update_bytes, "payload of one weight update over gRPC");
  schema.Field("rollout.update_deadline_ms", &o.update_deadline_ms, "for a verified update to be swapped in");
  schema.Field("rollout.max_stop_strings", &o.max_stop_strings, "per request");
  schema.Field("rollout.max_stop_bytes", &o.max_stop_bytes, "length of one stop string");
}

namespace {

void BindServedModel(base::Schema& schema, gateway::ModelOptions& o) {
  schema.Field("name", &o.name, "what clients ask for");
  schema.Choice("weights", &o.weights, {"follow", "pinned", "external"},
                "those of training; those of one version, which the engines retain; those of a server elsewhere");
  schema.Field("version", &o.version, "pinned: the version");
  schema.Field("address", &o.address, "external: host:port of a rollout role with this run's tokenizer");
}

}  // namespace

void BindGateway(base::Schema& schema, gateway::GatewayOptions& o, gateway::HttpServerOptions& http) {
  schema.Field("gateway.model_name", &o.model_name, "what /v1/models lists first; it follows training");
  schema.List<gateway::ModelOptions>("gateway.models", &o.models, BindServedModel,
                                     "further models by name; calls on weights that do not follow are not trained on");
  for (auto* pin : {&o.train_sampling, &o.eval_sampling}) {
    const std::string prefix = pin == &o.train_sampling ? "gateway.train_sampling." : "gateway.eval_sampling.";
    schema.Field(prefix + "temperature", &pin->temperature, "pinned whatever the client asks; training: > 0");
    schema.Field(prefix + "top_p", &pin->top_p, "in (0, 1]; 1: off");
    schema.Field(prefix + "top_k", &pin->top_k, "0: off");
    schema.Field(prefix + "min_p", &pin->min_p, "in [0, 1); 0: off");
  }
  schema.Field("gateway.max_new_tokens", &o.max_new_tokens, "tokens sampled per call, at most");
  schema.Field("gateway.default_max_tokens", &o.default_max_tokens,
               "tokens for a call whose client names no limit; 0: gateway.max_new_tokens");
  schema.Field("gateway.max_active_calls", &o.max_active_calls, "calls in flight; beyond: 429");
  schema.Field("gateway.max_open_episodes", &o.max_open_episodes, "episodes and served sessions held; beyond: 429");
  schema.Field("gateway.max_calls_per_episode", &o.max_calls_per_episode, "beyond: 400, which no client tries again");
  schema.Field("gateway.max_tokens_per_episode", &o.max_tokens_per_episode,
               "tokens of an episode's calls, prompts counted whole; beyond: the same; 0: no limit");
  schema.Field("gateway.episode_deadline_s", &o.episode_deadline_s,
               "seconds from an episode's opening until it fails; 0: none");
  schema.Field("gateway.max_remembered_ends", &o.max_remembered_ends, "ended episodes whose late calls get 410");
  schema.Field("gateway.call_deadline_s", &o.call_deadline_s, "seconds from arrival to the last token; 0: none");
  schema.Field("gateway.episode_idle_s", &o.episode_idle_s, "seconds without a call until an episode fails; 0: never");
  schema.Field("gateway.session_idle_s", &o.session_idle_s, "the same for served sessions; 0: never");
  schema.Field("gateway.end_wait_s", &o.end_wait_s, "seconds that ending an episode waits for its aborted calls");
  schema.Field("gateway.retry_after_s", &o.retry_after_s, "seconds that a 429 or 503 asks its client to wait");
  schema.Choice("gateway.history_thinking", &o.history_thinking, {"template", "keep"},
                "reasoning of earlier turns that the chat template leaves out: left out of the context, or kept in it");
  schema.Field("gateway.auto_episodes", &o.auto_episodes,
               "an unknown API key opens a session, recorded and not trained on, instead of 401");
  schema.Field("gateway.admin_key_file", &o.admin_key_file,
               "file with the key that opens episodes, and rewards and ends any; empty: anybody opens them");
  schema.Field("gateway.worker_threads", &o.worker_threads, "threads for parsing, rendering and admission");
  schema.Field("gateway.writer_threads", &o.writer_threads,
               "calls that are recorded at a time, sharing the pool's fsyncs");
  schema.Field("gateway.max_queued_work", &o.max_queued_work, "requests waiting for a worker; beyond: 503");
  schema.Field("gateway.public_url", &o.public_url, "what agents are told; empty: the address listened on");
  schema.Field("http.host", &http.host, "address to listen on");
  schema.Field("http.port", &http.port, "0: a free one");
  schema.Field("http.io_threads", &http.io_threads, "threads for sockets");
  schema.Field("http.max_connections", &http.max_connections, "beyond: 503");
  schema.Field("http.max_body_bytes", &http.max_body_bytes, "beyond: 413");
  schema.Field("http.max_buffered_bytes", &http.max_buffered_bytes, "bodies of all requests in flight; beyond: 503");
  schema.Field("gateway.tls.certificate", &http.tls_certificate, "PEM file, with those that signed it; empty: no TLS");
  schema.Field("gateway.tls.key", &http.tls_key, "PEM file of the certificate's private key");
  schema.Field("gateway.tls.allow_plaintext", &http.allow_plaintext,
               "http.host may be an address that other machines reach, without TLS: for private networks");
  schema.Field("http.max_header_bytes", &http.max_header_bytes, "beyond: 431");
  schema.Field("http.idle_timeout_s", &http.idle_timeout_s, "seconds of silence between requests");
  schema.Field("http.request_timeout_s", &http.request_timeout_s, "seconds from a request's first byte to its last");
  schema.Field("http.write_timeout_s", &http.write_timeout_s, "seconds one write may wait for a slow reader");
  schema.Field("http.keepalive_s", &http.keepalive_s,
               "seconds of silence in a stream after which a comment is sent; 0: none");
  schema.Field("http.shutdown_grace_s", &http.shutdown_grace_s, "seconds that stopping leaves requests in flight");
}

void BindDataPool(base::Schema& schema, datapool::StoreOptions& o) {
  schema.Field("datapool.shards", &o.shards, "databases the episodes are spread over; fixed when the pool is made");
  schema.Field("datapool.sync", &o.sync, "fsync before a write is acknowledged; false only for tests");
  schema.Field("datapool.cache_bytes", &o.cache_bytes, "read cache of all shards");
  schema.Field("datapool.write_buffer_bytes", &o.write_buffer_bytes, "of each shard");
  schema.Field("datapool.max_call_bytes", &o.max_call_bytes, "size of one recorded call");
  schema.Field("datapool.retry_after_error_s", &o.retry_after_error_s,
               "least seconds between two attempts to recover from a failing disk");
  schema.Field("datapool.max_waiting", &o.max_waiting, "writes that wait for an fsync, per shard; beyond: refused");
}

void BindWeights(base::Schema& schema, WeightsConfig& o) {
  schema.Field("weights.deadline_ms", &o.deadline_ms,
               "for one engine to confirm a version; past it the engine loses its lease");
  schema.Field("weights.zstd_level", &o.zstd_level, "of the delta codec: -7 (fastest) to 19");
}

namespace {

void BindStep(base::Schema& schema, agents::StepOptions& o) { schema.Field("command", &o.command, "argv, templates"); }

void BindVerifier(base::Schema& schema, reward::VerifierOptions& o) {
  schema.Choice("verifier.kind", &o.kind,
                {"exact", "numeric", "regex", "json_field", "command", "agent_reported", "agent_posted"},
                "how the outcome is scored");
  schema.Field("verifier.expected", &o.expected, "exact, numeric, json_field: template of the right answer");
  schema.Field("verifier.ignore_case", &o.ignore_case, "exact: A-Z and a-z are the same");
  schema.Field("verifier.tolerance", &o.tolerance, "numeric: absolute");
  schema.Field("verifier.relative_tolerance", &o.relative_tolerance, "numeric: relative to the expected value");
  schema.Field("verifier.pattern", &o.pattern, "regex: the whole answer must match it");
  schema.Field("verifier.field", &o.field, "json_field: dotted path; empty: the whole answer");
  schema.Field("verifier.command", &o.command, "command: argv, templates; gets the answer on stdin");
  schema.Choice("verifier.reward_from", &o.reward_from, {"exit_code", "json"}, "command: where the reward stands");
  schema.Field("verifier.timeout_s", &o.timeout_s, "command: seconds");
  schema.Field("verifier.timeout_is_zero", &o.timeout_is_zero, "command: running too long is reward 0, not an error");
  schema.Field("verifier.max_answer_bytes", &o.max_answer_bytes, "longer answers are malformed: reward 0");
}

void BindRecipe(base::Schema& schema, agents::RecipeOptions& o) {
  schema.Field("name", &o.name, "the scaffold, in metrics and recorded episodes");
  schema.Field("weight", &o.weight, "share of the episodes, relative to the other recipes");
  schema.Field(
      "command", &o.command,
      "argv; templates: ${base_url} ${api_key} ${task} ${task.FIELD} ${task_id} ${episode_id} ${workdir} ${home} "
      "${cwd}");
  schema.Field("env", &o.env, "environment variables (templates) added to HOME, OPENAI_BASE_URL, OPENAI_API_KEY, ...");
  schema.Field("inherit_env", &o.inherit_env, "variables taken over from ingot's own environment");
  schema.Field("files", &o.files, "files made in ${workdir}: path to template of the content");
  schema.List<agents::StepOptions>("setup", &o.setup, BindStep, "commands before the agent");
  schema.List<agents::StepOptions>("cleanup", &o.cleanup, BindStep, "commands after the agent and the verifier");
  schema.Field("timeout_s", &o.timeout_s, "seconds the agent may run");
  schema.Field("setup_timeout_s", &o.setup_timeout_s, "seconds each set-up command may run");
  schema.Field("cleanup_timeout_s", &o.cleanup_timeout_s, "seconds each clean-up command may run");
  schema.Field("max_output_bytes", &o.max_output_bytes,
               "stdout and stderr together; an agent that writes more is killed");
  schema.Field("memory_limit_bytes", &o.memory_limit_bytes, "address space of each process; 0: no limit");
  schema.Field("max_open_files", &o.max_open_files, "descriptors of each process; 0: no limit");
  schema.Field("cpu_limit_s", &o.cpu_limit_s, "CPU seconds of each process; 0: no limit");
  schema.Field("max_file_bytes", &o.max_file_bytes, "size of any file it writes; 0: no limit");
  schema.Field("max_concurrent", &o.max_concurrent, "episodes of this recipe at a time; 0: agents.concurrency");
  schema.Choice("answer_from", &o.answer_from, {"stdout", "file"},
                "where the answer stands: last line printed, or a file");
  schema.Field("answer_file", &o.answer_file, "answer_from file: path in ${workdir}");
  for (const auto& [name, field, what] :
       {std::tuple("on_crash", &o.on_crash, "an agent that exits with another code than 0"),
        std::tuple("on_timeout", &o.on_timeout, "an agent that runs past timeout_s"),
        std::tuple("on_flood", &o.on_flood, "an agent that writes more than max_output_bytes")}) {
    schema.Choice(name, field, {"fail", "zero", "verify"},
                  absl::StrCat(what, ": a new attempt, reward 0, or scored all the same"));
  }
  schema.Field("keep_failed", &o.keep_failed, "keep the folder of a failed episode");
  BindVerifier(schema, o.verifier);
}

}  // namespace

void BindAgents(base::Schema& schema, agents::RunnerOptions& o) {
  schema.Field("agents.concurrency", &o.concurrency, "episodes at a time");
  schema.Field("agents.work_root", &o.work_root, "folder of the episodes' private folders, on a local disk");
  schema.Field("agents.backoff_initial_s", &o.backoff_initial_s, "wait after a refused admission that names no time");
  schema.Field("agents.backoff_max_s", &o.backoff_max_s, "longest of these waits");
  schema.Field("agents.report_retry_s", &o.report_retry_s, "how long an unreachable gateway is asked to take a reward");
  schema.Field("agents.stop_timeout_s", &o.stop_timeout_s, "seconds that stopping waits for the running agents");
  schema.Field("agents.keep_failed_max", &o.keep_failed_max, "folders of failed episodes kept");
  schema.List<agents::RecipeOptions>("agents.recipes", &o.recipes, BindRecipe, "the kinds of agents");
}

}  // namespace ingot::app
