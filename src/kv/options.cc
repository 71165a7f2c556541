#include "kv/options.h"

#include "absl/strings/str_cat.h"
#include "base/config.h"
#include "base/printable.h"
#include "kv/memory_store.h"

namespace ingot::kv {

void Bind(base::Schema& schema, Options& o) {
  schema.Field("path", &o.path,
               "directory in which engines share the KV of whole chunks of a prompt, on a file system of all their "
               "machines; memory://: the memory of rollout.router.prefill_engines, from which the other engines pull "
               "over gRPC; empty: none");
  schema.Field("chunk_tokens", &o.chunk_tokens, "tokens per chunk; a multiple of rollout.kv_block_tokens",
               base::InRange(1, 65536));
  schema.Field("max_bytes", &o.max_bytes,
               "maximum size of the store; the least recently used chunks are removed. In a directory, each engine may "
               "use one more chunk while it writes. In memory, a store is also at most as large as its engine's KV "
               "cache",
               base::Positive());
  schema.Choice("write", &o.write, {"prompts", "all", "none"},
                "what an engine writes: prompts: whole chunks of prompts; all: also chunks of answers; none: "
                "nothing, it only reads");
  schema.Field("retire_after_s", &o.retire_after_s,
               "seconds after which chunks of a version are removed if no engine has held the version",
               base::InRange(1, 1e6));
  schema.Field("io_threads", &o.io_threads, "threads of an engine that read chunks; one more writes them",
               base::InRange(1, 64));
  schema.Field(
      "max_pending_bytes", &o.max_pending_bytes,
      "maximum memory of an engine for chunks that are being read, and again for those that wait to be written; "
      "others are computed, or not written",
      base::Positive());
}

absl::Status Options::Validate() const {
  if (path.find("://") != std::string::npos && !IsInMemory(*this)) {
    return absl::InvalidArgumentError(
        absl::StrCat("kv_store.path is ", base::Shown(path), ": it must be a directory or ", base::View(kMemoryPath)));
  }
  return base::CheckBounds(*this);
}

}  // namespace ingot::kv
