// Recorded trajectories as rows of a training file: the ids as sampled, never re-encoded text.
//
//   {"ids": [1, 2, 3, 4, 5], "learnt": [[2, 3], [4, 5]], "tokenizer": "9f2c...", ...}
//
// `learnt`: half-open ranges of `ids`, ascending, that bear loss. All other fields are for people. A row is one
// root-to-leaf path of an episode's tree: a leaf is a call that no other call continues whole. A turn on several paths
// is learned in the first of them.
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
  std::string tokenizer;  // fingerprint of the ids' tokenizer; empty = not known
  bool encoded = false;   // some of the learned ids encode text of another model (Call.encoded)
};

// The rows of an episode, in the order of their leaves; paths on which nothing is learned are left out. Calls for which
// `learns` is true are learned, and the others are context; null = learn the calls of the policy in training. Errors as
// tree::CallPathsOf.
absl::StatusOr<std::vector<RecordedRow>> RowsOf(const v1::EpisodeTree& tree,
                                                const std::function<bool(const v1::Call&)>& learns = nullptr);

base::json::object ToJson(const RecordedRow& row);
// INVALID_ARGUMENT names the field at fault, also `learnt` without a range.
absl::StatusOr<RecordedRow> RecordedRowFromJson(const base::json::value& object);
// True if the object is a recorded row and not a conversation.
bool IsRecordedRow(const base::json::value& object);

// Training examples of a row (dataset/sft.h): one per range, with what precedes it as context.
std::vector<tree::CallPath> ExamplesOf(const RecordedRow& row);

}  // namespace ingot::dataset
