// TokenPath: a sequence of token ids that shares its prefix with other sequences.
//
//   [system, task]---[sampled 0]---[tool result]---[sampled 1]---...      one run per edge of the episode's tree
//         `----------[sampled 0']
//
// The context of a call is such a path. Calls that continue one another share their runs: the memory of an episode of n
// turns is linear in its tokens, not quadratic. The borders of runs have no meaning: paths are compared by tokens.
//
// A token is an id and its content: the hash of what a placeholder stands for (v1::Placeholders), or nothing for text.
// All ids of a run have the same content.
//
// Immutable value; copies share their runs. As safe between threads as a shared_ptr to const.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ingot::tree {

// Adjacent tokens of one content.
struct TokenRun {
  std::span<const int32_t> ids;
  std::string_view content = {};  // empty = text
};

class TokenPath {
 public:
  TokenPath() = default;  // no tokens
  explicit TokenPath(std::vector<int32_t> tokens) : TokenPath(TokenPath().Then(std::move(tokens))) {}

  // This path with the ids appended. `content`: of each of them; empty = text.
  TokenPath Then(std::vector<int32_t> ids, std::string content = {}) const;

  // The first `count` tokens. Shares the runs that lie within them and copies the beginning of the next one. Linear in
  // the runs after them. REQUIRES: 0 <= count <= size().
  TokenPath First(int64_t count) const;

  int64_t size() const { return last_ == nullptr ? 0 : last_->end; }
  bool empty() const { return last_ == nullptr; }
  // The least and the greatest id. REQUIRES: not empty.
  std::pair<int32_t, int32_t> extremes() const { return {last_->least, last_->greatest}; }

  // The runs from the first token on; none is empty. Valid as long as this path, or a path that continues it, lives.
  std::vector<TokenRun> Runs() const;
  // A copy of all ids.
  std::vector<int32_t> Tokens() const;

  // The identity of the path: equal for its copies, different from every other living path; null = an empty path.
  const void* key() const { return last_.get(); }
  // Calls `visit(key, run)` for the runs from the last one back, until it returns false. `key`: of the path that ends
  // with the run.
  template <typename Visit>
  void VisitBack(const Visit& visit) const {
    for (const Run* run = last_.get(); run != nullptr; run = run->before.get()) {
      if (!visit(static_cast<const void*>(run), TokenRun{run->ids, run->content})) return;
    }
  }

 private:
  struct Run {
    Run(std::shared_ptr<const Run> before, std::vector<int32_t> ids, std::string content);
    ~Run();  // does not recurse
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;

    std::shared_ptr<const Run> before;
    const std::vector<int32_t> ids;  // at least one
    const std::string content;       // of each id
    int64_t end;                     // number of tokens from the root to this run's end
    int32_t least, greatest;         // of the ids from the root to this run's end
  };
  std::shared_ptr<const Run> last_;
};

}  // namespace ingot::tree
