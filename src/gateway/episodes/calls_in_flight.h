// Tracks an episode's calls that are sampling or being recorded. Not thread safe: Episode holds its lock while calling
// it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "base/checksum.h"

namespace ingot::gateway {

class ChatCall;

class CallsInFlight {
 public:
  void Add(const std::shared_ptr<ChatCall>& call) { calls_.emplace(call, std::nullopt); }
  // Called when the call has finished sampling. Does nothing if another thread has recorded it in the meantime.
  void Finish(const std::shared_ptr<ChatCall>& call, const base::Key128& asked) {
    const auto found = calls_.find(call);
    if (found != calls_.end()) found->second = asked;
  }
  void Remove(const std::shared_ptr<ChatCall>& call) { calls_.erase(call); }

  bool empty() const { return calls_.empty(); }
  size_t size() const { return calls_.size(); }
  std::vector<std::shared_ptr<ChatCall>> All() const {
    std::vector<std::shared_ptr<ChatCall>> all;
    for (const auto& [call, asked] : calls_) all.push_back(call);
    return all;
  }
  // Returns true if a call with one of these prompts is being recorded.
  bool AnyFinishing(const std::set<base::Key128>& asked) const {
    return std::any_of(calls_.begin(), calls_.end(),
                       [&](const auto& call) { return call.second.has_value() && asked.contains(*call.second); });
  }

 private:
  // Maps each call to its prompt's key once it has finished sampling. nullopt = it may still be sampling, or its prompt
  // is not a conversation.
  std::map<std::shared_ptr<ChatCall>, std::optional<base::Key128>> calls_;
};

}  // namespace ingot::gateway
