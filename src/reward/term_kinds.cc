// The table of term kinds: the one place that names them all.
#include <functional>
#include <utility>

#include "reward/options.h"

namespace ingot::reward {
namespace {

using Maker = std::unique_ptr<const RewardTerm> (*)(const TermOptions&);

// In the order in which errors and the schema list them.
const std::vector<std::pair<std::string, Maker>>& Table() {
  static const auto* table = new std::vector<std::pair<std::string, Maker>>{
      {"outcome",
       [](const TermOptions&) -> std::unique_ptr<const RewardTerm> { return std::make_unique<OutcomeTerm>(); }},
      {"length",
       [](const TermOptions& o) -> std::unique_ptr<const RewardTerm> {
         return std::make_unique<LengthTerm>(o.length);
       }},
  };
  return *table;
}

}  // namespace

const std::vector<std::string>& TermKinds() {
  static const auto* kinds = [] {
    auto* names = new std::vector<std::string>;
    for (const auto& [name, maker] : Table()) names->push_back(name);
    return names;
  }();
  return *kinds;
}

absl::StatusOr<std::unique_ptr<const RewardTerm>> MakeTerm(const TermOptions& options) {
  for (const auto& [name, maker] : Table()) {
    if (name == options.kind) return maker(options);
  }
  return absl::InvalidArgumentError(absl::StrCat("rewards.terms kind is '", options.kind, "'"));
}

}  // namespace ingot::reward
