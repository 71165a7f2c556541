// Proposes the ids that the sender expects: GenerateRequest.draft_ids, as long as every id so far has matched them, or
// forced_ids.
#pragma once

#include <span>
#include <string_view>

#include "rollout/speculation/drafter.h"

namespace ingot::rollout {

class GivenDrafter final : public Drafter {
 public:
  std::string_view name() const override { return "given"; }
  void Propose(std::span<const Ask> asks) override;
};

}  // namespace ingot::rollout
