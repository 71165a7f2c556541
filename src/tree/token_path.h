// A sequence of token ids that shares its beginning with others.
//
//   [system, task]---[sampled 0]---[tool result]---[sampled 1]---...      one run per edge of the episode's tree
//         `----------[sampled 0']
//
// What a call saw is the path down to it. Calls that continue one another hold the same runs, so that an episode of n
// turns takes the tokens it has, not their square. Where runs begin and end means nothing: paths are compared by
// tokens.
//
// Immutable value; copies share. As safe between threads as a shared_ptr to const.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace ingot::tree {

class TokenPath {
 public:
  TokenPath() = default;  // no tokens
  explicit TokenPath(std::vector<int32_t> tokens) : TokenPath(TokenPath().Then(std::move(tokens))) {}

  // This path, and the tokens behind it.
  TokenPath Then(std::vector<int32_t> tokens) const;

  // The first `count` of its tokens: the runs that lie within them, and a copy of what it has of the next. Takes the
  // time of the runs behind. REQUIRES: 0 <= count <= size().
  TokenPath First(int64_t count) const;

  int64_t size() const { return last_ == nullptr ? 0 : last_->end; }
  bool empty() const { return last_ == nullptr; }
  // The least and the greatest id. REQUIRES: not empty.
  std::pair<int32_t, int32_t> extremes() const { return {last_->least, last_->greatest}; }

  // From the first token on; none is empty. Valid as long as the path or one that goes on from it.
  std::vector<std::span<const int32_t>> Runs() const;
  // All tokens in one piece: a copy.
  std::vector<int32_t> Tokens() const;

  // Equal for copies of one path, and for no others that are alive; null for an empty one.
  const void* key() const { return last_.get(); }
  // Calls `visit(key, run)` for the runs from the last one back, until it returns false. `key` is that of the path that
  // ends with the run.
  template <typename Visit>
  void VisitBack(const Visit& visit) const {
    for (const Run* run = last_.get(); run != nullptr; run = run->before.get()) {
      if (!visit(static_cast<const void*>(run), std::span<const int32_t>(run->tokens))) return;
    }
  }

 private:
  struct Run {
    Run(std::shared_ptr<const Run> before, std::vector<int32_t> tokens);
    ~Run();  // does not recurse
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;

    std::shared_ptr<const Run> before;
    const std::vector<int32_t> tokens;  // at least one
    int64_t end;                        // tokens up to here, these included
    int32_t least, greatest;            // of them
  };
  std::shared_ptr<const Run> last_;
};

}  // namespace ingot::tree
