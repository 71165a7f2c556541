#include "app/run/role_schemas.h"

namespace ingot::app {

void BindScheduler(base::Schema& schema, scheduler::SchedulerOptions& o) {
  schema.Field("scheduler.total_steps", &o.total_steps, "optimizer steps of the run");
  schema.Field("scheduler.groups_per_step", &o.groups_per_step, "P: groups that one optimizer step trains");
  schema.Field("scheduler.group_size", &o.group_size, "samples per task");
  schema.Field("scheduler.max_staleness", &o.max_staleness, "S, in policy versions; 0: on-policy");
  schema.Field("scheduler.window_fraction", &o.window_fraction,
               "W = max(1, floor(this x (S+1)P)): how far past the oldest group batches may reach; (0, 1]");
  schema.Choice(
      "scheduler.order", &o.order, {"strict", "windowed", "greedy"},
      "which finished groups a batch may take: strict: in the order of admission; windowed: within W; greedy: "
      "any, whatever the age and the mix of the batch");
  schema.Field(
      "scheduler.drop_zero_variance", &o.drop_zero_variance,
      "drop groups whose rewards are all equal, and admit others in their place (DAPO's dynamic sampling, under "
      "every trainer.preset)");
  schema.Field("scheduler.max_drops_per_batch", &o.max_drops_per_batch,
               "drops since the last batch after which groups of equal rewards are trained anyway; 0: no limit but "
               "scheduler.give_up_equal");
  schema.Field("scheduler.group_deadline_s", &o.group_deadline_seconds,
               "seconds that a group may take while its samples run or can be handed out; past it the group fails");
  schema.Field("scheduler.max_attempts", &o.max_attempts, "failed attempts of one sample before its group fails");
  schema.Field("scheduler.max_infrastructure_failures", &o.max_infrastructure_failures,
               "the same for failures that are not the agent's fault: sandbox, set-up, verifier");
  schema.Field("scheduler.give_up_s", &o.give_up_seconds,
               "seconds in which every group fails (at least as many groups as may be open), after which the run ends "
               "with the last reason; 0: never");
  schema.Field(
      "scheduler.give_up_unstarted", &o.give_up_unstarted,
      "episodes in a row that fail in set-up (no sandbox, set-up, task, verifier, or no agent called the model), "
      "before any finishes, after which the run ends with the last reason; at least 3 for each of "
      "agents.concurrency; 0: never; no effect on outside agents");
  schema.Field("scheduler.give_up_equal", &o.give_up_equal,
               "groups dropped in a row for equal rewards after which the run ends; 0: never; no effect with "
               "scheduler.max_drops_per_batch above 0");
  schema.Field("scheduler.max_concurrent_episodes", &o.max_concurrent_episodes,
               "episodes running at a time, evaluation included; 0: no separate limit");
  schema.Field("scheduler.retry_after_ms", &o.retry_after_ms, "wait that a 429 response asks for");
  schema.Field("scheduler.max_active_evals", &o.max_active_evals, "evaluations running at a time");
  schema.Field("scheduler.max_eval_episodes", &o.max_eval_episodes, "tasks times avg_n of one evaluation");
}

void BindSampling(base::Schema& schema, scheduler::SamplingOptions& o, std::map<std::string, std::string>& domains) {
  schema.Choice(
      "scheduler.sampling.order", &o.order, {"uniform", "curriculum", "prioritized"},
      "uniform: shuffled passes; curriculum: from the easiest tasks to all; prioritized: by 1 - success rate");
  schema.Field("scheduler.sampling.domains", &domains,
               "weight of each of the tasks' domains; empty: every task weighs the same");
  schema.Field("scheduler.sampling.once", &o.once, "no task is used twice in the run, through restarts");
  schema.Field("scheduler.sampling.difficulty_field", &o.difficulty_field,
               "curriculum: the task's number with its difficulty; pass_rate_field is used if no task has it");
  schema.Field("scheduler.sampling.curriculum_start", &o.curriculum_start,
               "curriculum: share of the tasks, easiest first, at the start; (0, 1]");
  schema.Field("scheduler.sampling.curriculum_until", &o.curriculum_until,
               "curriculum: share of the steps after which all tasks are in; (0, 1]");
  schema.Field("scheduler.sampling.pass_rate_field", &o.pass_rate_field,
               "the task's number with its success rate before the run, 0 to 1; empty: not known");
  schema.Field("scheduler.sampling.warm_up", &o.warm_up, "share of the steps in which hard_below does not count");
  schema.Field("scheduler.sampling.hard_below", &o.hard_below,
               "only tasks with a success rate below it, where there are any; 0: all");
  schema.Field("scheduler.sampling.retire_after", &o.retire_after,
               "groups of a task in a row that all succeeded or all failed, after which it rests; 0: never");
  schema.Field("scheduler.sampling.retire_groups", &o.retire_groups, "ended groups of the run for which it rests");
  schema.Field("scheduler.sampling.success_above", &o.success_above, "an episode succeeded if its outcome is above it");
}

void BindRollout(base::Schema& schema, rollout::EngineOptions& o) {
  schema.Field("rollout.record_routes", &o.record_routes,
               "record which experts drew each id, for trainer.replay_routes; two bytes per expert, layer and token");
  schema.Field("rollout.kv_block_tokens", &o.kv_block_tokens, "tokens per KV block; 1 to 1024");
  schema.Field("rollout.kv_cache_tokens", &o.kv_cache_tokens, "size of the KV cache in tokens");
  schema.Field("rollout.max_running", &o.max_running, "requests in one batch");
  schema.Field("rollout.max_waiting", &o.max_waiting, "queued requests beyond max_running; one more is rejected");
  schema.Field("rollout.max_batch_tokens", &o.max_batch_tokens,
               "tokens in one forward pass (decode and prompt chunks)");
  schema.Field("rollout.context_length", &o.context_length,
               "greatest number of tokens of a request; 0: the model's own");
  schema.Field("rollout.prefix_cache", &o.prefix_cache, "share the KV of equal prefixes");
  schema.Field("rollout.max_retained_versions", &o.max_retained_versions, "versions held in addition to the newest");
  schema.Field("rollout.request_deadline_ms", &o.request_deadline_ms,
               "milliseconds from arrival to the last token; 0: none");
  schema.Field("rollout.max_update_bytes", &o.max_update_bytes, "payload of one weight update over gRPC");
  schema.Field("rollout.update_deadline_ms", &o.update_deadline_ms,
               "milliseconds for a verified update to be swapped in");
  schema.Field("rollout.max_stop_strings", &o.max_stop_strings, "per request");
  schema.Field("rollout.max_stop_bytes", &o.max_stop_bytes, "length of one stop string");
  schema.Choice("rollout.halt.repetition", &o.halt.repetition, {"on", "off", "auto"},
                "end calls that repeat themselves; auto: unless the vocabulary is of bytes");
  schema.Field("rollout.halt.certain_tokens", &o.halt.certain_tokens,
               "tokens in a row, each with a probability above certain_above, that end a call");
  schema.Field("rollout.halt.certain_above", &o.halt.certain_above, "see certain_tokens");
  schema.Field("rollout.halt.max_period", &o.halt.max_period, "tokens of a phrase whose repetition ends a call");
  schema.Field("rollout.halt.periods", &o.halt.periods, "times that the phrase comes before it ends the call");
  schema.Field("rollout.halt.min_repeated", &o.halt.min_repeated,
               "least tokens of the repeated phrases together; 0: as many as they are");
}

void BindDataPool(base::Schema& schema, datapool::StoreOptions& o) {
  schema.Choice(
      "datapool.backend", &o.backend, {"rocksdb", "postgres"},
      "rocksdb: files in the run's folder, written by one process; postgres: a database that replicates itself");
  schema.Field(
      "datapool.postgres.url", &o.postgres.url,
      "connection string of libpq, such as 'host=a,b,c dbname=ingot user=ingot'; passwords come from PGPASSFILE");
  schema.Field("datapool.postgres.name", &o.postgres.name,
               "name of the pool in the database: its schema is ingot_NAME_SHARD; default: the run's name");
  schema.Field("datapool.postgres.allow_single", &o.postgres.allow_single,
               "accept a server without a synchronous standby: the death of its disk loses the run");
  schema.Field("datapool.postgres.answer_timeout_s", &o.postgres.answer_timeout_s,
               "longest wait for a statement or commit before another server is tried");
  schema.Field("datapool.shards", &o.shards, "databases the episodes are spread over; fixed when the pool is made");
  schema.Field("datapool.sync", &o.sync, "fsync before a write is acknowledged; false only for tests");
  schema.Field("datapool.cache_bytes", &o.cache_bytes, "read cache of all shards, with the indexes of what is stored");
  schema.Field("datapool.write_buffer_bytes", &o.write_buffer_bytes, "of each shard");
  schema.Field("datapool.max_call_bytes", &o.max_call_bytes, "size of one recorded call");
  schema.Field("datapool.retry_after_error_s", &o.retry_after_error_s,
               "least seconds between two attempts to recover from a failing disk");
  schema.Field("datapool.max_waiting", &o.max_waiting, "writes that wait for an fsync, per shard; beyond: rejected");
}

void BindWeights(base::Schema& schema, WeightsConfig& o) {
  schema.Field("weights.deadline_ms", &o.deadline_ms,
               "milliseconds for one engine to confirm a version; after that it loses its lease");
  schema.Field("weights.zstd_level", &o.zstd_level, "of the delta codec: -7 (fastest) to 19");
}

}  // namespace ingot::app
