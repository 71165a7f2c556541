#include "tree/token_path.h"

#include <algorithm>

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

// Releases the runs before this one in a loop: a path may have more runs than the stack has room for frames.
TokenPath::Run::~Run() {
  thread_local std::vector<std::shared_ptr<const Run>>* releasing = nullptr;  // of a destructor further up the stack
  if (before == nullptr) return;
  if (releasing != nullptr) {
    releasing->push_back(std::move(before));
    return;
  }
  std::vector<std::shared_ptr<const Run>> left;
  releasing = &left;
  left.push_back(std::move(before));
  while (!left.empty()) {
    const std::shared_ptr<const Run> run = std::move(left.back());
    left.pop_back();
  }
  releasing = nullptr;
}

TokenPath TokenPath::Then(std::vector<int32_t> tokens) const {
  TokenPath path = *this;
  if (!tokens.empty()) path.last_ = std::make_shared<const Run>(last_, std::move(tokens));
  return path;
}

TokenPath TokenPath::First(int64_t count) const {
  TokenPath path = *this;
  std::span<const int32_t> next;  // the run behind `path`
  while (path.size() > count) {
    next = path.last_->tokens;
    path.last_ = path.last_->before;
  }
  const auto more = next.first(static_cast<size_t>(count - path.size()));
  return path.Then({more.begin(), more.end()});
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
