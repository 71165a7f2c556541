// TokenPath is a sequence of token ids that shares its prefix with other sequences.
//
//   [system, task]---[sampled 0]---[tool result]---[sampled 1]---...      one run per edge of the episode's tree
//         `----------[sampled 0']
//
// A call's context is a TokenPath. Calls that continue each other share runs, so an episode's memory is linear in its
// tokens, not quadratic in its turns. Run boundaries have no meaning: paths are compared by tokens.
//
// A token is an id and its content: a hash of the content that a placeholder represents (v1::Placeholders), or empty
// for text. All ids in a run have the same content.
//
// Immutable value type. Copies share their runs. As thread safe as a shared_ptr to const.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ingot::tree {

// Adjacent tokens with the same content.
struct TokenRun {
  std::span<const int32_t> ids;
  std::string_view content = {};  // empty = text
};

class TokenPath {
 public:
  TokenPath() = default;  // no tokens
  explicit TokenPath(std::vector<int32_t> tokens) : TokenPath(TokenPath().Then(std::move(tokens))) {}

  // Returns this path with the ids appended. `content` applies to each of them; empty = text.
  TokenPath Then(std::vector<int32_t> ids, std::string content = {}) const;

  // Returns the first `count` tokens. Shares the runs that are fully included, and copies the beginning of the next
  // one. Linear in the number of runs after the cut. REQUIRES: 0 <= count <= size().
  TokenPath First(int64_t count) const;

  int64_t size() const { return last_ == nullptr ? 0 : last_->end; }
  bool empty() const { return last_ == nullptr; }
  // Returns the smallest and the largest id. REQUIRES: not empty.
  std::pair<int32_t, int32_t> extremes() const { return {last_->least, last_->greatest}; }

  // Returns the runs in order. No run is empty. Valid while this path, or a path that continues it, exists.
  std::vector<TokenRun> Runs() const;
  // Returns a copy of all ids.
  std::vector<int32_t> Tokens() const;

  // Returns an identifier that copies of this path share and no other existing path has. Null = an empty
  // path.
  const void* key() const { return last_.get(); }
  // Calls `visit(key, run)` for the runs from last to first, until it returns false. `key` identifies the path that
  // ends with the run.
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
    const std::string content;       // content of each id
    int64_t end;                     // number of tokens from the root to this run's end
    int32_t least, greatest;         // smallest and largest id from the root to this run's end
  };
  std::shared_ptr<const Run> last_;
};

}  // namespace ingot::tree
