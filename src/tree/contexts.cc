#include "tree/contexts.h"

namespace ingot::tree {

absl::StatusOr<const v1::Call*> Contexts::ContinuedBy(const v1::Call& call) const {
  if (!call.has_continued_segments()) return nullptr;
  const auto found = by_id_.find(call.parent_call_id());
  if (found == by_id_.end()) {
    return absl::DataLossError(
        absl::StrCat("call ", call.call_id(), " continues call ", call.parent_call_id(), ", which is missing"));
  }
  const int continued = call.continued_segments(), sampled = found->second->sampled_keys_size();
  if (continued < 0 || continued > sampled) {
    return absl::DataLossError(absl::StrCat("call ", call.call_id(), " continues ", continued, " of the ", sampled,
                                            " segments that call ", call.parent_call_id(), " sampled"));
  }
  return found->second;
}

absl::StatusOr<std::vector<const v1::Call*>> Contexts::ChainOf(const v1::Call& call) const {
  std::vector<const v1::Call*> chain;
  for (const v1::Call* next = &call; next != nullptr;) {
    if (chain.size() > by_id_.size()) {
      return absl::DataLossError(absl::StrCat("call ", call.call_id(), " continues itself"));
    }
    chain.push_back(next);
    INGOT_ASSIGN_OR_RETURN(next, ContinuedBy(*next));
  }
  return chain;
}

absl::StatusOr<std::vector<std::string>> Contexts::KeysOf(const v1::Call& call) const {
  INGOT_ASSIGN_OR_RETURN(const std::vector<const v1::Call*> chain, ChainOf(call));
  std::vector<std::string> keys;
  for (size_t i = chain.size(); i-- > 0;) {
    const v1::Call& link = *chain[i];
    if (link.has_continued_segments()) {
      const auto& sampled = chain[i + 1]->sampled_keys();
      keys.insert(keys.end(), sampled.begin(), sampled.begin() + link.continued_segments());
    }
    keys.insert(keys.end(), link.context_keys().begin(), link.context_keys().end());
  }
  return keys;
}

}  // namespace ingot::tree
