// ATIF, the Agent Trajectory Interchange Format of Harbor (schema ATIF-v1.7), from and to recorded episodes.
//
// Out: one trajectory per episode. A call is a step of source "agent", with its ids and log-probs. The prompt's text
// after the previous call is a step of source "user", as the chat template wrote it. Threads of sub-agents are embedded
// trajectories, and an observation refers to them. `extra` holds what ATIF has no field for: task, outcome, signals,
// reward, versions, call ids.
//
// In: every agent step that an LLM made is a call, except copied context, which belongs to an earlier trajectory. With
// completion_token_ids and prompt_token_ids the ids are taken as they are, with their log-probs or zeros. Without them
// the messages are rendered and encoded here (Call.encoded), for supervised training only.
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

// The text of ids, special tokens included.
using DecodeIds = std::function<std::string(const std::vector<int32_t>& ids)>;

// Errors as tree::CallPathsOf. FAILED_PRECONDITION: the episode has no call, but ATIF requires a step.
absl::StatusOr<base::json::object> ToAtif(const v1::EpisodeTree& tree, const DecodeIds& decode);

struct AtifCall {
  tree::CallPath path;  // temperature 1, version 0; log-probs 0 where the file has none
  std::string branch;   // the embedded trajectory's id; empty = the main one
  std::string model;
  std::string delivered_json;  // the message, in OpenAI's form
  bool encoded = false;        // the ids encode text here
};

struct AtifTrajectory {
  std::string id, agent, task_id, domain;
  double outcome = 0;  // of `extra`; 0 = none
  bool has_outcome = false;
  std::map<std::string, double> signals;  // of `extra`
  std::vector<AtifCall> calls;
};

// INVALID_ARGUMENT names the step at fault. `format` renders steps without ids.
absl::StatusOr<AtifTrajectory> FromAtif(const base::json::value& trajectory, const text::ChatFormat& format);

}  // namespace ingot::dataset
