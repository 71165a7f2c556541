// Writes the folder for `ingot serve --record DIR`. `ingot inspect DIR` can read it. Use it to compare an engine's
// requests with the pool, id by id:
//
//   DIR/config.yaml   names the model
//   DIR/tokenizer     decodes the pool's ids (models/kept_tokenizer.h)
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
  // Opens or creates the folder, and stores the calls in it. `model_dir`, `chat_format`, `chat_template`, and `text`
  // belong to the served model.
  static absl::StatusOr<std::unique_ptr<ServedRecord>> Open(const std::string& dir, const std::string& model_dir,
                                                            const std::string& chat_format,
                                                            const std::string& chat_template, const TextParts& text);

  const std::shared_ptr<datapool::Client>& pool() const { return pool_; }
  // Wraps `engine` so that its requests are written to engine.jsonl. REQUIRES: this object outlives the result.
  std::shared_ptr<rollout::Client> RecordRequests(std::shared_ptr<rollout::Client> engine);
  // REQUIRES: no call is in progress.
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
