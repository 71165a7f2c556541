// What an iteration of a loop wrote, and what it read that another rendering may have otherwise.
//
//   {% for message in messages %} ... {% endfor %}
//
// Strings, lists and dicts of a template never change, and what a loop's body assigns ends with the iteration. So what
// it writes is told by its item, by what it reads of names from outside of it, of elements of lists from outside
// (messages[loop.index0 + 1]), of `loop`, and of attributes of namespaces from outside; besides, it can do no more than
// assign to such attributes. Where all of what was read is the same again, the iteration is not run: its text is
// appended and its attributes are assigned. A body that reads anything else from outside (all of a list of messages,
// what the template made, the clock), or assigns an object, is always run.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace ingot::text::jinja {

struct IterationMemo {
  struct Read {
    enum class Kind {
      kName,       // slot
      kAttribute,  // slot, a namespace, and attribute
      kItem,       // slot, a list, and index
      kLoop,       // attribute of the loop
      kCount,      // slot, a list of as many items as the loop has
    };
    Kind kind;
    int slot = -1;
    std::string_view attribute = {};  // in the template's syntax tree, as the loop that this is kept for
    int64_t index = 0;
    Value value = {};
    const void* definition = nullptr;  // of an object (Object::definition), which is not held
  };
  struct Write {
    int slot;
    std::string_view attribute;
    Value value;
  };
  std::vector<Read> reads;
  std::vector<Write> writes;    // in their order
  std::vector<int> namespaces;  // slots whose attributes are read or written: no two are the same namespace
  Str text{""};                 // what it wrote
  std::vector<std::pair<size_t, size_t>> generations;  // in `text`
  bool continued = false;                              // it ended with `continue`
  mutable std::atomic<bool> used = false;
};

// Whether a template that read `before` would find no difference in `now`. Objects are compared by their definition.
bool IsSame(const IterationMemo::Read& before, const Value& now);

// Made while an iteration is run.
class Recording {
 public:
  // Scopes that are older than `born` are outside. `from_end`: where the item stands, counted from the loop's end, is
  // as much a part of it as what it says.
  Recording(uint64_t born, const Object* loop, bool from_end) : born_(born), loop_(loop), from_end_(from_end) {}

  bool IsOutside(uint64_t scope_born) const { return scope_born < born_; }
  bool IsLoop(const Value& value) const { return value.is_object() && value.object().get() == loop_; }
  bool from_end() const { return from_end_; }
  bool refused() const { return refused_; }
  void Refuse() { refused_ = true; }

  // `given`: the value came from outside of the template, and is no conversation. Others may hold what changes.
  void ReadName(int slot, const Value& value, bool given);
  void ReadItem(int slot, int64_t index, const Value& value, bool given);
  void ReadLoop(std::string_view attribute, const Value& value, bool given);
  void ReadCount(int slot) { Add({.kind = IterationMemo::Read::Kind::kCount, .slot = slot}); }
  void ReadAttribute(int slot, const Namespace* space, std::string_view attribute, const Value& value);
  void WriteAttribute(int slot, const Namespace* space, std::string_view attribute, const Value& value);

  std::shared_ptr<IterationMemo> Take() { return std::move(memo_); }

 private:
  void Add(IterationMemo::Read read);
  void Touch(int slot, const Namespace* space);

  const uint64_t born_;
  const Object* const loop_;
  const bool from_end_;
  bool refused_ = false;
  std::vector<std::pair<int, const Namespace*>> spaces_;
  std::shared_ptr<IterationMemo> memo_ = std::make_shared<IterationMemo>();
};

}  // namespace ingot::text::jinja
