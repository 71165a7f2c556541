#include "text/jinja/iteration_run.h"

#include <algorithm>

namespace ingot::text::jinja {
namespace {

// What an iteration's place in its loop decides, and the items before it.
bool IsOfPlace(std::string_view loop_attribute) {
  for (const std::string_view name : {"index", "index0", "first", "depth", "depth0", "previtem"}) {
    if (loop_attribute == name) return true;
  }
  return false;
}

}  // namespace

void RunComposer::Add(const IterationMemo& memo) {
  const bool is_last = ++memo_->count == count_;
  for (const IterationMemo::Read& read : memo.reads) Read(read, is_last);
  for (const IterationMemo::Write& write : memo.writes) Write(write);
  for (const int slot : memo.namespaces) {
    auto& all = memo_->namespaces;
    if (std::find(all.begin(), all.end(), slot) == all.end()) all.push_back(slot);
  }
  memo_->completed = memo_->completed || !memo.continued;
}

void RunComposer::Read(const IterationMemo::Read& read, bool is_last) {
  using Kind = IterationMemo::Read::Kind;
  if (read.kind == Kind::kAttribute && written_.contains({read.slot, read.attribute})) return;
  if (read.kind == Kind::kLoop) {
    if (IsOfPlace(read.attribute)) return;
    const bool next = read.attribute == "nextitem";
    if (!next && read.attribute != "last") return Refuse();
    if (!is_last) return;
    if (next) {
      memo_->next = read.value;
    } else {
      memo_->ends = read.value.boolean();
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
