#include "rollout/engine_options.h"

namespace ingot::rollout {

namespace {

absl::Status AtLeast(const char* field, int64_t value, int64_t least) {
  if (value >= least) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("rollout.", field, " is ", value, "; it must be at least ", least));
}

}  // namespace

absl::Status EngineOptions::Validate() const {
  INGOT_RETURN_IF_ERROR(AtLeast("kv_block_tokens", kv_block_tokens, 1));
  if (kv_block_tokens > 1024) {
    return absl::InvalidArgumentError(
        absl::StrCat("rollout.kv_block_tokens is ", kv_block_tokens, "; it must be at most 1024"));
  }
  INGOT_RETURN_IF_ERROR(AtLeast("kv_cache_tokens", kv_cache_tokens, kv_block_tokens));
  if (kv_cache_tokens / kv_block_tokens > INT32_MAX) {
    return absl::InvalidArgumentError(absl::StrCat("rollout.kv_cache_tokens is ", kv_cache_tokens,
                                                   "; it must be fewer than 2^31 blocks of kv_block_tokens"));
  }
  INGOT_RETURN_IF_ERROR(AtLeast("max_running", max_running, 1));
  INGOT_RETURN_IF_ERROR(AtLeast("max_waiting", max_waiting, 0));
  // Every running request decodes one token per step. If a step left one out, its speed would depend on its place.
  INGOT_RETURN_IF_ERROR(AtLeast("max_batch_tokens", max_batch_tokens, max_running));
  INGOT_RETURN_IF_ERROR(AtLeast("threads", threads, 1));
  INGOT_RETURN_IF_ERROR(AtLeast("context_length", context_length, 0));
  INGOT_RETURN_IF_ERROR(AtLeast("max_retained_versions", max_retained_versions, 0));
  INGOT_RETURN_IF_ERROR(AtLeast("request_deadline_ms", request_deadline_ms, 0));
  INGOT_RETURN_IF_ERROR(AtLeast("update_deadline_ms", update_deadline_ms, 1));
  INGOT_RETURN_IF_ERROR(AtLeast("max_update_bytes", max_update_bytes, 1));
  INGOT_RETURN_IF_ERROR(AtLeast("max_stop_strings", max_stop_strings, 0));
  INGOT_RETURN_IF_ERROR(AtLeast("max_stop_bytes", max_stop_bytes, 1));
  return halt.Validate();
}

}  // namespace ingot::rollout
