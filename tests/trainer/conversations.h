// Conversations and pairs for tests of the supervised stages.
#pragma once

#include <vector>

#include "makers.h"
#include "tree/forest.h"

namespace ingot::trainer {

// Conversations of two assistant turns over one system prompt.
inline std::vector<tree::CallPath> Conversations(int count, int64_t vocab) {
  Draws draws(8);
  const auto system = draws.Tokens(4, vocab);
  std::vector<tree::CallPath> calls;
  for (int i = 0; i < count; ++i) {
    std::vector<int32_t> history = Join(system, draws.Tokens(3, vocab));
    for (int turn = 0; turn < 2; ++turn) {
      tree::CallPath call;
      call.call_id = absl::StrCat("conversation ", i, " turn ", turn);
      call.episode = call.group = i;
      call.context = tree::TokenPath(history);
      call.sampled = draws.Tokens(4, vocab);
      history = Join(call.Tokens(), draws.Tokens(2, vocab));
      calls.push_back(call);
    }
  }
  return calls;
}

// Pairs over one prompt each: the chosen side has two turns, the rejected one.
inline std::vector<tree::CallPath> Pairs(int count, int64_t vocab) {
  Draws draws(12);
  std::vector<tree::CallPath> calls;
  for (int i = 0; i < count; ++i) {
    const std::vector<int32_t> prompt = draws.Tokens(4, vocab);
    for (int side = 0; side < 2; ++side) {
      std::vector<int32_t> history = prompt;
      for (int turn = 0; turn < 2 - side; ++turn) {
        tree::CallPath call;
        call.call_id = absl::StrCat("pair ", i, side == 0 ? " chosen " : " rejected ", turn);
        call.episode = 2 * i + side;
        call.group = i;
        call.context = tree::TokenPath(history);
        call.sampled = draws.Tokens(5, vocab);
        history = call.Tokens();
        calls.push_back(call);
      }
    }
  }
  return calls;
}

}  // namespace ingot::trainer
