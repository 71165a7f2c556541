// What `ingot serve --record DIR` keeps of every call, so that what the engine was asked can be held against the record
// id by id:
//
//   DIR/pool          the record, as the gateway of a run has it
//   DIR/engine.jsonl  a line per request as it reached an engine: {"call_id", "prompt_ids"}
//   DIR/calls.jsonl   written when serving ends, from the pool: a line per call, {"call_id", "episode_id", "sequence",
//                     "parent_call_id", "fork_cause", "finish", "tool_call_malformed", "prompt_ids", "sampled_ids"}
#pragma once

#include <fstream>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "base/status.h"
#include "datapool/client.h"
#include "rollout/client.h"

namespace ingot::app {

class ServedRecord {
 public:
  // Makes the folder if it is not there; calls that it holds stay.
  static absl::StatusOr<std::unique_ptr<ServedRecord>> Open(const std::string& dir);

  datapool::Client& pool() { return *pool_; }
  // `engine`, with its requests noted. This outlives it.
  std::shared_ptr<rollout::Client> Noting(std::shared_ptr<rollout::Client> engine);
  // REQUIRES: no call is under way.
  absl::Status WriteCalls();

 private:
  class NotingEngine;
  explicit ServedRecord(std::string dir) : dir_(std::move(dir)) {}
  void Note(const v1::GenerateRequest& request);

  const std::string dir_;
  std::unique_ptr<datapool::Client> pool_;
  base::Mutex mu_;
  std::ofstream asked_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::app
