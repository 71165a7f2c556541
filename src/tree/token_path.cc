#include "tree/token_path.h"

#include <algorithm>
#include <atomic>

namespace ingot::tree {

TokenPath::Run::Run(std::shared_ptr<const Run> run, std::vector<int32_t> ids)
    : before(std::move(run)), tokens(std::move(ids)), end(static_cast<int64_t>(tokens.size())) {
  const auto [low, high] = std::minmax_element(tokens.begin(), tokens.end());
  least = *low;
  greatest = *high;
  if (before == nullptr) return;
  end += before->end;
  least = std::min(least, before->least);
  greatest = std::max(greatest, before->greatest);
}

// A path may have more runs than a stack has room for frames: what nobody else holds is released one by one.
TokenPath::Run::~Run() {
  std::shared_ptr<const Run> run = std::move(before);
  while (run != nullptr && run.use_count() == 1) {
    std::atomic_thread_fence(std::memory_order_acquire);  // whoever held it too is done reading
    std::shared_ptr<const Run> next = std::move(run->before);
    run = std::move(next);
  }
}

TokenPath TokenPath::Then(std::vector<int32_t> tokens) const {
  TokenPath path = *this;
  if (!tokens.empty()) path.last_ = std::make_shared<const Run>(last_, std::move(tokens));
  return path;
}

std::vector<std::span<const int32_t>> TokenPath::Runs() const {
  std::vector<std::span<const int32_t>> runs;
  VisitBack([&](const void*, std::span<const int32_t> run) {
    runs.push_back(run);
    return true;
  });
  std::reverse(runs.begin(), runs.end());
  return runs;
}

std::vector<int32_t> TokenPath::Tokens() const {
  std::vector<int32_t> tokens;
  tokens.reserve(static_cast<size_t>(size()));
  for (const std::span<const int32_t> run : Runs()) tokens.insert(tokens.end(), run.begin(), run.end());
  return tokens;
}

}  // namespace ingot::tree
