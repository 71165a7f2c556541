// Implements a for loop's `loop` variable, which also drives the loop.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "text/jinja/value.h"

namespace ingot::text::jinja {

class LoopObject final : public Object, public std::enable_shared_from_this<LoopObject> {
 public:
  using Test = std::function<bool(const Value& item)>;
  using Recurse = std::function<Value(const Value& iterable, int depth0)>;
  LoopObject(Value::SeqPtr items, Test test, Recurse recurse, int depth0);

  // Moves to the next item that passes the test. Returns false at the end.
  bool Advance();
  const Value& current() const { return current_; }
  // Ends the loop. A template may still reference this object.
  void Finish();

  const char* type_name() const override { return "LoopContext"; }
  std::string Repr() const override;
  std::optional<Value> Attribute(std::string_view name) const override;
  bool callable() const override { return true; }
  Value Call(Runtime& runtime, const Args& args) override;
  int depth() const override { return seq_->depth; }

  Value Cycle(const Args& args) const;
  bool Changed(const Args& args);

 private:
  // Returns the item after the current one. Looks ahead only as far as jinja2 does, because a test may have side
  // effects.
  const std::optional<Value>& Peek() const;
  std::optional<Value> Pull() const;
  int64_t Count() const;

  const Value::SeqPtr seq_;
  mutable std::vector<Value> rest_;          // items that passed the test, set once all were tested
  mutable const std::vector<Value>* items_;  // in seq_, or rest_
  const Test test_;
  const Recurse recurse_;
  const int depth0_;
  bool finished_ = false;
  mutable size_t next_ = 0;
  mutable bool tested_ = false;  // the items in items_ were already tested
  mutable bool peeked_ = false;
  mutable std::optional<Value> after_;
  mutable std::optional<int64_t> count_;
  int64_t index0_ = -1;
  Value current_;
  std::optional<Value> before_;
  std::optional<Value> last_changed_;
};

}  // namespace ingot::text::jinja
