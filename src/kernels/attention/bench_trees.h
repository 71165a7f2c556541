// visible_end (attention.h) of the trees that benchmarks and tests of attention use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ingot::kernels {

inline std::vector<int32_t> CausalTree(int64_t rows) {
  return std::vector<int32_t>(static_cast<size_t>(rows), static_cast<int32_t>(rows));
}

// A prompt and `count` answers to it.
inline std::vector<int32_t> GroupTree(int64_t prompt, int64_t answer, int64_t count) {
  std::vector<int32_t> end = CausalTree(prompt + count * answer);
  for (int64_t j = prompt; j < static_cast<int64_t>(end.size()); ++j) {
    end[static_cast<size_t>(j)] = static_cast<int32_t>(prompt + ((j - prompt) / answer + 1) * answer);
  }
  return end;
}

// A prompt, then turns with one question each. Below a question are the thinking and the answer as sampled (a leaf),
// and a second copy of the answer without the thinking. The next turn continues the second copy.
inline std::vector<int32_t> DialogueTree(int64_t prompt, int64_t turns, int64_t question, int64_t thinking,
                                         int64_t answer) {
  std::vector<int32_t> end = CausalTree(prompt + turns * (question + thinking + 2 * answer));
  for (int64_t t = 0, at = prompt; t < turns; ++t, at += question + thinking + 2 * answer) {
    const int64_t leaf = at + question + thinking + answer;
    for (int64_t j = at + question; j < leaf; ++j) end[static_cast<size_t>(j)] = static_cast<int32_t>(leaf);
  }
  return end;
}

}  // namespace ingot::kernels
