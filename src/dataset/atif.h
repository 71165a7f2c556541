// Converts recorded episodes to and from ATIF, the Agent Trajectory Interchange Format of Harbor (schema ATIF-v1.7).
//
// Export: one trajectory per episode. A call becomes a step with source "agent", with its ids and log-probs. The prompt
// text since the previous call becomes a step with source "user", as the chat template rendered it. Sub-agent threads
// become embedded trajectories, which an observation references. `extra` holds the data for which ATIF has no field:
// task, outcome, signals, reward, versions, call ids.
//
// Import: every agent step made by an LLM is a call, except copied context, which belongs to an earlier trajectory. If
// a step has completion_token_ids and prompt_token_ids, the ids are used unchanged, with their log-probs or zeros.
// Otherwise the messages are rendered and encoded here (Call.encoded), for supervised training only.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "proto/tree.pb.h"
#include "text/chat/chat.h"
#include "tree/forest.h"

namespace ingot::dataset {

// Decodes ids to text, including special tokens.
using DecodeIds = std::function<std::string(const std::vector<int32_t>& ids)>;

// Returns the same errors as tree::CallPathsOf, and FAILED_PRECONDITION if the episode has no calls, because ATIF
// requires a step.
absl::StatusOr<base::json::object> ToAtif(const v1::EpisodeTree& tree, const DecodeIds& decode);

struct AtifCall {
  tree::CallPath path;  // temperature 1, version 0; log-probs are 0 if the file has none
  std::string branch;   // id of the embedded trajectory; empty = the main trajectory
  std::string model;
  std::string delivered_json;  // the message in OpenAI format
  bool encoded = false;        // the ids were encoded from text during import
};

struct AtifTrajectory {
  std::string id, agent, task_id, domain;
  double outcome = 0;  // from `extra`; 0 if has_outcome is false
  bool has_outcome = false;
  std::map<std::string, double> signals;  // from `extra`
  std::vector<AtifCall> calls;
};

// Returns INVALID_ARGUMENT with the faulty step. `format` renders steps without ids.
absl::StatusOr<AtifTrajectory> FromAtif(const base::json::value& trajectory, const text::ChatFormat& format);

}  // namespace ingot::dataset
