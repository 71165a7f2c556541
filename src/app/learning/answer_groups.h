// Turns rated answers into the trainer's groups. Each answer is a group of one, because users do not get several
// answers to compare. Its advantage is its reward minus the mean reward of its step's answers
// (trainer.advantage_baseline: batch), because users rate on different scales. Only the answer's tokens contribute to
// the loss. Everything before it in the conversation, including earlier answers, is its prompt.
#pragma once

#include <vector>

#include "app/learning/rated_answers.h"
#include "base/status.h"
#include "datapool/client.h"
#include "proto/tree.pb.h"

namespace ingot::app {

// Returns the group for one answer in its conversation. `id` becomes the group's id. Returns DATA_LOSS if the
// conversation lacks the call or one of its segments.
absl::StatusOr<v1::Group> GroupOf(const v1::EpisodeTree& conversation, const RatedAnswer& answer, int64_t id);

// Reads the answers' conversations and returns their groups in the same order. Returns the pool's errors and GroupOf's.
absl::StatusOr<std::vector<v1::Group>> ReadGroups(datapool::Client& pool, const std::vector<RatedAnswer>& answers);

}  // namespace ingot::app
