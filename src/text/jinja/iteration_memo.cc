#include "text/jinja/iteration_memo.h"

#include <algorithm>
#include <bit>

namespace ingot::text::jinja {
namespace {

constexpr size_t kMaxReads = 64;  // more take longer to look up than most bodies take to run

bool IsScalar(const Value& value) {
  return value.is_none() || value.is_undefined() || value.is_number() || value.is_str();
}

bool IsSameText(const Str& a, const Str& b) {
  return &a == &b || (a.bytes == b.bytes && a.marks == b.marks && a.markup == b.markup);
}

}  // namespace

bool IsSame(const IterationMemo::Read& before, const Value& now) {
  const Value& was = before.value;
  if (before.definition != nullptr) return now.is_object() && now.object()->definition() == before.definition;
  if (was.is_none()) return now.is_none();
  if (was.is_undefined()) return now.is_undefined() && now.undefined_message() == was.undefined_message();
  if (was.is_bool()) return now.is_bool() && now.boolean() == was.boolean();
  if (was.is_int()) return now.is_int() && now.integer() == was.integer();
  if (was.is_float()) {
    return now.is_float() && std::bit_cast<uint64_t>(now.number()) == std::bit_cast<uint64_t>(was.number());
  }
  if (was.is_str()) return now.is_str() && IsSameText(*was.str(), *now.str());
  if (was.is_seq()) return now.is_seq() && now.seq() == was.seq();
  return was.is_dict() && now.is_dict() && now.dict() == was.dict();
}

void Recording::Add(IterationMemo::Read read) {
  const auto known = [&](const IterationMemo::Read& other) {
    return other.kind == read.kind && other.slot == read.slot && other.index == read.index &&
           other.attribute == read.attribute;
  };
  auto& reads = memo_->reads;
  if (std::any_of(reads.begin(), reads.end(), known)) return;
  if (reads.size() == kMaxReads) return Refuse();
  reads.push_back(std::move(read));
}

void Recording::ReadName(int slot, const Value& value, bool given) {
  IterationMemo::Read read{.kind = IterationMemo::Read::Kind::kName, .slot = slot};
  if (value.is_object()) {
    read.definition = value.object()->definition();
    if (read.definition == nullptr) return Refuse();
  } else {
    if (!IsScalar(value) && !given) return Refuse();
    read.value = Owned(value);
  }
  Add(std::move(read));
}

void Recording::ReadItem(int slot, int64_t index, const Value& value, bool given) {
  if (!IsScalar(value) && !given) return Refuse();
  Add({.kind = IterationMemo::Read::Kind::kItem, .slot = slot, .index = index, .value = Owned(value)});
}

void Recording::ReadLoop(std::string_view attribute, const Value& value, bool given) {
  if (!IsScalar(value) && !given) return Refuse();
  Add({.kind = IterationMemo::Read::Kind::kLoop, .attribute = attribute, .value = Owned(value)});
}

// Through two names at once what is written by the one is read by the other.
void Recording::Touch(int slot, const Namespace* space) {
  for (const auto& [other_slot, other] : spaces_) {
    if (other_slot == slot && other == space) return;
    if (other_slot == slot || other == space) return Refuse();
  }
  spaces_.emplace_back(slot, space);
  memo_->namespaces.push_back(slot);
}

void Recording::ReadAttribute(int slot, const Namespace* space, std::string_view attribute, const Value& value) {
  Touch(slot, space);
  if (!IsScalar(value)) return Refuse();
  const auto own = [&](const IterationMemo::Write& write) {
    return write.slot == slot && write.attribute == attribute;
  };
  if (std::any_of(memo_->writes.begin(), memo_->writes.end(), own)) return;
  Add({.kind = IterationMemo::Read::Kind::kAttribute, .slot = slot, .attribute = attribute, .value = value});
}

void Recording::WriteAttribute(int slot, const Namespace* space, std::string_view attribute, const Value& value) {
  Touch(slot, space);
  if (!IsScalar(value)) return Refuse();
  std::erase_if(memo_->writes,
                [&](const IterationMemo::Write& write) { return write.slot == slot && write.attribute == attribute; });
  memo_->writes.push_back({slot, attribute, value});
}

}  // namespace ingot::text::jinja
