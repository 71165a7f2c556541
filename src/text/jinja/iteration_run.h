// What a loop's iterations over the beginning of a conversation wrote and assigned together. They are as many as its
// messages, and the same in each rendering of it; kept as one, they are taken over with one look at what they read from
// outside.
//
//   {% for message in messages %} ... {% endfor %}           messages [0, 70) as one text, then one by one
//   {% for message in messages[::-1] %} ... {% endfor %}     writes nothing: one by one, then messages [0, 70) as one
//
// A run is made of the memos of its iterations (iteration_memo.h), one after the other. What the first of them finds
// the same, and each of the others but for what those before it assigned, all of them find the same. When more messages
// are settled, the run of those before is a part of the new one, as an iteration is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "text/jinja/iteration_memo.h"
#include "text/jinja/template.h"

namespace ingot::text::jinja {

struct RunMemo : IterationMemo {
  // Iterations over tracked[first, first + count): the loop's first ones, or, reversed, from the last of these items to
  // the first, its last ones.
  size_t first = 0, count = 0;
  bool reversed = false;
  bool completed = false;  // an iteration ran to its end
  // What the last of them (reversed: the first) saw of the item behind (before) it. nullopt: nothing.
  std::optional<Value> beside;         // loop.nextitem (previtem)
  std::optional<bool> borders;         // loop.last (first)
  std::vector<Rendered::Pass> passes;  // in `text`
};

// Puts the memos of iterations together.
class RunComposer {
 public:
  RunComposer(size_t first, size_t count, bool reversed) : count_(count), reversed_(reversed) {
    memo_->first = first;
    memo_->reversed = reversed;
  }

  // The next iteration, as it was recorded.
  void Add(const IterationMemo& memo);
  // The next iterations, which were taken over. REQUIRES: as reversed as this, and not all of it.
  void Add(const RunMemo& run);
  // The next iteration cannot be kept, so no run can.
  void Refuse() { refused_ = true; }
  bool refused() const { return refused_; }
  bool reversed() const { return reversed_; }
  bool complete() const { return memo_->count == count_; }
  // All but what they wrote. REQUIRES: complete.
  std::shared_ptr<RunMemo> Take() { return std::move(memo_); }

 private:
  void Append(const IterationMemo& memo, bool at_border);
  void Read(const IterationMemo::Read& read, bool at_border);
  void Write(const IterationMemo::Write& write);

  const size_t count_;
  const bool reversed_;
  bool refused_ = false;
  std::set<std::tuple<IterationMemo::Read::Kind, int, std::string_view, int64_t>> known_;  // reads
  std::set<std::pair<int, std::string_view>> written_;
  std::shared_ptr<RunMemo> memo_ = std::make_shared<RunMemo>();
};

}  // namespace ingot::text::jinja
