#include "text/jinja/iteration_run.h"

#include <algorithm>

namespace ingot::text::jinja {
namespace {

// What an iteration's place in its loop decides, and the items before it; reversed, its place from the loop's end and
// the items behind it.
bool IsOfPlace(std::string_view loop_attribute, bool reversed) {
  constexpr std::string_view kForward[] = {"index", "index0", "first", "depth", "depth0", "previtem"};
  constexpr std::string_view kReversed[] = {"revindex", "revindex0", "last", "depth", "depth0", "nextitem"};
  const auto& names = reversed ? kReversed : kForward;
  return std::find(std::begin(names), std::end(names), loop_attribute) != std::end(names);
}

}  // namespace

void RunComposer::Add(const IterationMemo& memo) {
  ++memo_->count;
  Append(memo, memo_->count == (reversed_ ? 1 : count_));
  memo_->completed = memo_->completed || !memo.continued;
}

void RunComposer::Add(const RunMemo& run) {
  memo_->count += run.count;
  Append(run, false);
  memo_->completed = memo_->completed || run.completed;
}

void RunComposer::Append(const IterationMemo& memo, bool at_border) {
  for (const IterationMemo::Read& read : memo.reads) Read(read, at_border);
  for (const IterationMemo::Write& write : memo.writes) Write(write);
  for (const int slot : memo.namespaces) {
    auto& all = memo_->namespaces;
    if (std::find(all.begin(), all.end(), slot) == all.end()) all.push_back(slot);
  }
}

void RunComposer::Read(const IterationMemo::Read& read, bool at_border) {
  using Kind = IterationMemo::Read::Kind;
  if (read.kind == Kind::kAttribute && written_.contains({read.slot, read.attribute})) return;
  if (read.kind == Kind::kLoop) {
    if (IsOfPlace(read.attribute, reversed_)) return;
    const bool beside = read.attribute == (reversed_ ? "previtem" : "nextitem");
    if (!beside && read.attribute != (reversed_ ? "first" : "last")) return Refuse();
    if (!at_border) return;
    if (beside) {
      memo_->beside = read.value;
    } else {
      memo_->borders = read.value.boolean();
    }
    return;
  }
  if (known_.insert({read.kind, read.slot, read.attribute, read.index}).second) memo_->reads.push_back(read);
}

void RunComposer::Write(const IterationMemo::Write& write) {
  if (!written_.insert({write.slot, write.attribute}).second) {
    std::erase_if(memo_->writes, [&](const IterationMemo::Write& before) {
      return before.slot == write.slot && before.attribute == write.attribute;
    });
  }
  memo_->writes.push_back(write);
}

}  // namespace ingot::text::jinja
