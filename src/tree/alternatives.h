// Reads the alternatives that an engine recorded for sampled ids (v1::Segment::alternative_ids). Pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "proto/tree.pb.h"
#include "tree/render.h"

namespace ingot::tree {

// Returns the number of alternatives per id for lists of these lengths: 0 = none are recorded, -1 = the lists are
// inconsistent or do not have a whole number of entries per id.
int32_t AlternativesPerId(int ids, int alternative_ids, int alternative_logprobs);
int32_t AlternativesPerId(const v1::Segment& segment);

// Returns one line per sampled token, grouped by call: its index in the call, its text and log-prob, and the text and
// log-prob of each alternative. The sampled token is marked with * among the alternatives. If no call has alternatives,
// the text explains how to record them. Returns DATA_LOSS if a segment is missing.
absl::StatusOr<std::string> RenderAlternatives(const v1::EpisodeTree& tree, const DecodeFn& decode);

}  // namespace ingot::tree
