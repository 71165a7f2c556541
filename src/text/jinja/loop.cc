#include "text/jinja/loop.h"

#include <algorithm>

#include "text/jinja/budget.h"

namespace ingot::text::jinja {
namespace {

class LoopMethod final : public Object {
 public:
  LoopMethod(std::shared_ptr<LoopObject> loop, bool changed) : loop_(std::move(loop)), changed_(changed) {}
  const char* type_name() const override { return "method"; }
  bool callable() const override { return true; }
  int depth() const override { return kMaxDepth; }  // called immediately, never stored in a value
  Value Call(Runtime&, const Args& args) override {
    return changed_ ? Value(loop_->Changed(args)) : loop_->Cycle(args);
  }

 private:
  const std::shared_ptr<LoopObject> loop_;
  const bool changed_;
};

}  // namespace

LoopObject::LoopObject(Value::SeqPtr items, Test test, Recurse recurse, int depth0)
    : seq_(std::move(items)),
      items_(&seq_->items),
      test_(std::move(test)),
      recurse_(std::move(recurse)),
      depth0_(depth0) {}

void LoopObject::Finish() {
  finished_ = true;
  last_changed_.reset();  // may hold this object
}

std::optional<Value> LoopObject::Pull() const {
  while (next_ < items_->size()) {
    ChargeSteps(1);
    const Value& item = (*items_)[next_++];
    if (tested_ || !test_ || test_(item)) return item;
  }
  return std::nullopt;
}

const std::optional<Value>& LoopObject::Peek() const {
  if (!peeked_) {
    after_ = Pull();
    peeked_ = true;
  }
  return after_;
}

bool LoopObject::Advance() {
  std::optional<Value> item = peeked_ ? std::move(after_) : Pull();
  peeked_ = false;
  after_.reset();
  if (!item) return false;
  if (index0_ >= 0) before_ = std::move(current_);
  ++index0_;
  current_ = *std::move(item);
  return true;
}

int64_t LoopObject::Count() const {
  if (count_) return *count_;
  if (!test_) {
    count_ = static_cast<int64_t>(items_->size());
    return *count_;
  }
  std::vector<Value> rest;
  while (auto item = Pull()) rest.push_back(*std::move(item));
  count_ = index0_ + 1 + static_cast<int64_t>(rest.size()) + (peeked_ && after_ ? 1 : 0);
  rest_ = std::move(rest);
  items_ = &rest_;
  next_ = 0;
  tested_ = true;
  return *count_;
}

std::string LoopObject::Repr() const { return absl::StrCat("<LoopContext ", index0_ + 1, "/", Count(), ">"); }

std::optional<Value> LoopObject::Attribute(std::string_view name) const {
  const auto integer = [](int64_t n) { return Value(n); };
  if (name == "index") return integer(index0_ + 1);
  if (name == "index0") return integer(index0_);
  if (name == "first") return Value(index0_ == 0);
  if (name == "last") return Value(!Peek().has_value());
  if (name == "length") return integer(Count());
  if (name == "revindex") return integer(Count() - index0_);
  if (name == "revindex0") return integer(Count() - index0_ - 1);
  if (name == "depth") return integer(depth0_ + 1);
  if (name == "depth0") return integer(depth0_);
  if (name == "previtem") return before_ ? *before_ : Value::UndefinedWith("there is no previous item");
  if (name == "nextitem") return Peek() ? *Peek() : Value::UndefinedWith("there is no next item");
  if (name == "cycle" || name == "changed") {
    return Value(Value::ObjectPtr(
        std::make_shared<LoopMethod>(std::const_pointer_cast<LoopObject>(shared_from_this()), name == "changed")));
  }
  return std::nullopt;
}

Value LoopObject::Cycle(const Args& args) const {
  if (args.positional.empty()) Fail("TypeError: no items for cycling given");
  return args.positional[static_cast<size_t>(std::max<int64_t>(index0_, 0)) % args.positional.size()];
}

bool LoopObject::Changed(const Args& args) {
  Value now = MakeTuple(args.positional);
  if (last_changed_ && Equal(*last_changed_, now)) return false;
  if (!finished_) last_changed_ = std::move(now);
  return true;
}

Value LoopObject::Call(Runtime&, const Args& args) {
  if (!recurse_) Fail("TypeError: The loop must have the 'recursive' marker to be called recursively.");
  if (args.positional.size() != 1) Fail("TypeError: loop() takes one iterable");
  return recurse_(args.positional[0], depth0_ + 1);
}

}  // namespace ingot::text::jinja
