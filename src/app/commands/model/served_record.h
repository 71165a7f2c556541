// The record of `ingot serve --record DIR`, for `ingot inspect DIR`, and to compare an engine's requests with the pool
// id by id:
//
//   DIR/config.yaml   names the model
//   DIR/tokenizer     reads the pool's ids (models/kept_tokenizer.h)
//   DIR/pool          the pool, as the gateway of a run records it
//   DIR/engine.jsonl  a line per request that reached an engine: {"call_id", "prompt_ids"}
//   DIR/calls.jsonl   a line per call, written from the pool when serving ends: {"call_id", "episode_id", "sequence",
//                     "parent_call_id", "fork_cause", "finish", "tool_call_malformed", "prompt_ids", "sampled_ids"}
#pragma once

#include <fstream>
#include <memory>
#include <string>

#include "app/models/text_parts.h"
#include "base/mutex.h"
#include "base/status.h"
#include "datapool/client.h"
#include "rollout/client.h"

namespace ingot::app {

class ServedRecord {
 public:
  // Opens or makes the folder; calls that it holds stay. `model_dir`, `chat_format`, `chat_template` and `text` are the
  // served model's.
  static absl::StatusOr<std::unique_ptr<ServedRecord>> Open(const std::string& dir, const std::string& model_dir,
                                                            const std::string& chat_format,
                                                            const std::string& chat_template, const TextParts& text);

  const std::shared_ptr<datapool::Client>& pool() const { return pool_; }
  // `engine`, with its requests written to engine.jsonl. This must outlive it.
  std::shared_ptr<rollout::Client> RecordRequests(std::shared_ptr<rollout::Client> engine);
  // REQUIRES: no call is under way.
  absl::Status WriteCalls();

 private:
  class RecordingEngine;
  explicit ServedRecord(std::string dir) : dir_(std::move(dir)) {}
  void Note(const v1::GenerateRequest& request);

  const std::string dir_;
  std::shared_ptr<datapool::Client> pool_;
  base::Mutex mu_;
  std::ofstream asked_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::app
