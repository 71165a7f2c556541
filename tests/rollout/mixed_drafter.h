// A drafter that guesses in every way at random: nothing, the ids that will be sampled, ids that will not, any ids, ids
// outside the vocabulary, or the right ones up to a place. It draws a new number of guesses, 0 to 8, at every step.
#pragma once

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "rollout/engine/sequence.h"
#include "rollout/speculation/drafter.h"

namespace ingot::rollout {

class MixedDrafter final : public Drafter {
 public:
  using Answers = std::map<uint64_t, std::vector<int32_t>>;  // the ids that will be sampled, by the request's seed

  MixedDrafter(Answers answers, int32_t vocab, uint64_t seed)
      : answers_(std::move(answers)), vocab_(vocab), seed_(seed) {}

  std::string_view name() const override { return "mixed"; }

  void Propose(std::span<const Ask> asks) override {
    for (const Ask& ask : asks) {
      const auto found = answers_.find(ask.sequence->draw.seed);
      const auto index = static_cast<size_t>(ask.sequence->sampled());
      const uint64_t way = Draw(6), wrong_from = Draw(8);
      const size_t count = std::min<size_t>(Draw(9), ask.most + 1);  // one more than there is room for
      for (size_t i = 0; way > 0 && i < count; ++i) {
        const bool known = found != answers_.end() && index + i < found->second.size();
        const int32_t right = known ? found->second[index + i] : 0;
        const auto any = static_cast<int32_t>(Draw(static_cast<uint64_t>(vocab_)));
        const bool is_right = way <= 2 || (way == 3 && i < wrong_from);
        ask.draft->ids.push_back(is_right ? right : way == 4 ? (right + 1) % vocab_ : way == 5 ? any - 3 : any);
      }
      ask.draft->acceptance = 0.5;
    }
  }

 private:
  uint64_t Draw(uint64_t below) { return base::DeriveSeed(seed_, next_++) % below; }

  const Answers answers_;
  const int32_t vocab_;
  const uint64_t seed_;
  uint64_t next_ = 0;
};

}  // namespace ingot::rollout
