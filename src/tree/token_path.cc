#include "tree/token_path.h"

#include <algorithm>

namespace ingot::tree {

TokenPath::Run::Run(std::shared_ptr<const Run> run, std::vector<int32_t> own, std::string of_each)
    : before(std::move(run)), ids(std::move(own)), content(std::move(of_each)), end(std::ssize(ids)) {
  const auto [low, high] = std::minmax_element(ids.begin(), ids.end());
  least = *low;
  greatest = *high;
  if (before == nullptr) return;
  end += before->end;
  least = std::min(least, before->least);
  greatest = std::max(greatest, before->greatest);
}

// Releases the preceding runs in a loop, because recursion could overflow the stack.
TokenPath::Run::~Run() {
  // Set by a destructor further up the stack.
  thread_local std::vector<std::shared_ptr<const Run>>* releasing = nullptr;
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

TokenPath TokenPath::Then(std::vector<int32_t> ids, std::string content) const {
  TokenPath path = *this;
  if (!ids.empty()) path.last_ = std::make_shared<const Run>(last_, std::move(ids), std::move(content));
  return path;
}

TokenPath TokenPath::First(int64_t count) const {
  TokenPath path = *this;
  TokenRun next;  // the run that follows `path`
  while (path.size() > count) {
    next = {path.last_->ids, path.last_->content};
    path.last_ = path.last_->before;
  }
  const auto more = next.ids.first(static_cast<size_t>(count - path.size()));
  return path.Then({more.begin(), more.end()}, std::string(next.content));
}

std::vector<TokenRun> TokenPath::Runs() const {
  std::vector<TokenRun> runs;
  VisitBack([&](const void*, const TokenRun& run) {
    runs.push_back(run);
    return true;
  });
  std::reverse(runs.begin(), runs.end());
  return runs;
}

std::vector<int32_t> TokenPath::Tokens() const {
  std::vector<int32_t> tokens;
  tokens.reserve(static_cast<size_t>(size()));
  for (const TokenRun& run : Runs()) tokens.insert(tokens.end(), run.ids.begin(), run.ids.end());
  return tokens;
}

}  // namespace ingot::tree
