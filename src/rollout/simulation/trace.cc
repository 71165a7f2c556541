#include "rollout/simulation/trace.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/rng.h"

namespace ingot::rollout {
namespace {

// Draws numbers around a mean. Counter-based, so each one depends only on the seed and its position.
class Around {
 public:
  explicit Around(uint64_t seed) : seed_(seed) {}
  // Uniform between half and 1.5 times the mean, at least 1.
  int Uniform(int mean) { return std::max(static_cast<int>(std::lround(mean * (0.5 + Next()))), 1); }
  // Exponential, at most ten times the mean.
  int Exponential(int mean) { return static_cast<int>(std::lround(mean * std::min(-std::log(1 - Next()), 10.0))); }

 private:
  double Next() { return base::UniformAt(seed_, count_++); }

  const uint64_t seed_;
  uint64_t count_ = 0;
};

}  // namespace

std::string MakeRlTrace(const RlTraceOptions& o) {
  std::string text;
  Around draw(o.seed);
  for (int group = 0; group < o.groups; ++group) {
    const int prompt = draw.Uniform(o.prompt_tokens);
    for (int member = 0; member < o.group_size; ++member) {
      absl::StrAppend(&text, "{\"group\":", group, ",\"shared_tokens\":[", o.scaffold_tokens, ",", prompt,
                      "],\"turns\":[");
      const int turns = draw.Uniform(o.turns);
      for (int turn = 0; turn < turns; ++turn) {
        const int added = turn == 0 ? 0 : draw.Uniform(o.turn_tokens);
        const int delay = turn == 0 ? 0 : draw.Exponential(o.delay_ms);
        absl::StrAppend(&text, turn == 0 ? "" : ",", "[", added, ",", draw.Uniform(o.answer_tokens), ",", delay, "]");
      }
      absl::StrAppend(&text, "]}\n");
    }
  }
  return text;
}

void AppendIds(const TracePiece& piece, std::vector<int32_t>& ids) {
  for (int32_t i = 0; i < piece.tokens; ++i) {
    ids.push_back(static_cast<int32_t>(base::DeriveSeed(piece.content, static_cast<uint64_t>(i)) >> 33));
  }
}

}  // namespace ingot::rollout
