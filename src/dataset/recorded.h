// Converts recorded trajectories to and from training file rows. Rows contain the ids as sampled, never re-encoded
// text.
//
//   {"ids": [1, 2, 3, 4, 5], "learnt": [[2, 3], [4, 5]], "tokenizer": "9f2c...", ...}
//
// `learnt` lists the half-open ranges of `ids`, ascending, that are trained on. All other fields are informational. A
// row is one root-to-leaf path of an episode's tree. A leaf is a call that no other call fully continues. A turn on
// several paths is trained on only in the first path.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "proto/tree.pb.h"
#include "tree/forest.h"

namespace ingot::dataset {

struct RecordedRow {
  std::vector<int32_t> ids;
  std::vector<std::pair<int64_t, int64_t>> learnt;
  std::string tokenizer;  // fingerprint of the tokenizer for the ids; empty = unknown
  bool encoded = false;   // some of the trained ids were encoded from another model's text (Call.encoded)
};

// Returns the rows of an episode, in the order of their leaves. Omits paths with nothing to train on. Calls for which
// `learns` returns true are trained on, and the others are context. Null = train on the calls of the policy in
// training. Returns the same errors as tree::CallPathsOf.
absl::StatusOr<std::vector<RecordedRow>> RowsOf(const v1::EpisodeTree& tree,
                                                const std::function<bool(const v1::Call&)>& learns = nullptr);

base::json::object ToJson(const RecordedRow& row);
// Returns INVALID_ARGUMENT with the invalid field. A `learnt` without ranges is also an error.
absl::StatusOr<RecordedRow> RecordedRowFromJson(const base::json::value& object);
// Returns whether the object is a recorded row rather than a conversation.
bool IsRecordedRow(const base::json::value& object);

// Returns the training examples for a row (dataset/sft.h): one per range, with the preceding ids as context.
std::vector<tree::CallPath> ExamplesOf(const RecordedRow& row);

}  // namespace ingot::dataset
