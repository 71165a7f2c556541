// Iterations that are not run: see iteration_memo.h.
#include <algorithm>

#include "text/jinja/budget.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/iteration_cache.h"

namespace ingot::text::jinja {

Interpreter::Flow Interpreter::Iterate(const Stmt& statement, const LoopObject& loop, const ScopePtr& inner) {
  const Value& item = loop.current();
  const bool plain = statement.exprs[1] == nullptr && !statement.recursive && WritesToRoot() && recording_ == nullptr;
  if (!plain || !item.is_dict() || tracked_.empty()) return Execute(statement.body, inner);
  const auto tracked = tracked_.find(item.dict().get());
  IterationCache* const cache = tracked == tracked_.end() ? nullptr : options_.tracked[tracked->second].kept.get();
  if (cache == nullptr) return Execute(statement.body, inner);
  const auto known = cache->Find(statement.loop);
  if (!known.has_value()) return Execute(statement.body, inner);
  const IterationMemo* const memo = known->get();
  if (memo == nullptr || !Holds(*memo, loop, inner->parent.get())) return Record(statement, loop, inner, *cache);
  Replay(*memo, inner->parent.get());
  return memo->continued ? Flow::kContinue : Flow::kNormal;
}

Interpreter::Flow Interpreter::Record(const Stmt& statement, const LoopObject& loop, const ScopePtr& inner,
                                      IterationCache& cache) {
  Recording recording(inner->born, &loop);
  const StrBuilder::Place begin = root_out_.Here();
  const size_t passes = passes_.size(), generations = generations_.size();
  struct WhileRecording {
    Recording*& current;
    ~WhileRecording() { current = nullptr; }
  };
  Flow flow = Flow::kNormal;
  {
    const WhileRecording here{recording_ = &recording};
    flow = Execute(statement.body, inner);
  }
  const bool wrote = root_out_.size() > begin.bytes;  // a loop that only looks does little that could be saved
  if (recording.refused() || !wrote || flow == Flow::kBreak || passes_.size() > passes) {
    cache.Keep(statement.loop, nullptr);
    return flow;
  }
  const std::shared_ptr<IterationMemo> memo = recording.Take();
  memo->text = root_out_.CopySince(begin);
  memo->continued = flow == Flow::kContinue;
  for (size_t i = generations; i < generations_.size(); ++i) {
    memo->generations.emplace_back(generations_[i].first - begin.bytes, generations_[i].second - begin.bytes);
  }
  cache.Keep(statement.loop, memo);
  return flow;
}

bool Interpreter::Holds(const IterationMemo& memo, const LoopObject& loop, const Scope* outside) const {
  using Read = IterationMemo::Read;
  std::vector<const Object*> spaces;
  for (const int slot : memo.namespaces) {
    const Value space = Lookup(slot, outside).value;
    if (!space.is_object() || dynamic_cast<const Namespace*>(space.object().get()) == nullptr) return false;
    if (std::find(spaces.begin(), spaces.end(), space.object().get()) != spaces.end()) return false;
    spaces.push_back(space.object().get());
  }
  for (const Read& read : memo.reads) {
    ChargeSteps(1);
    Value now;
    switch (read.kind) {
      case Read::Kind::kName:
        now = Lookup(read.slot, outside).value;
        break;
      case Read::Kind::kAttribute:
        now = GetAttribute(Lookup(read.slot, outside).value, read.attribute);
        break;
      case Read::Kind::kItem: {
        const Value list = Lookup(read.slot, outside).value;
        if (!list.is_seq() || list.seq()->is_generator()) return false;
        now = GetItem(list, Value(read.index));
        break;
      }
      case Read::Kind::kLoop:
        now = loop.Attribute(read.attribute).value_or(Value());
        break;
    }
    if (!IsSame(read, now)) return false;
  }
  return true;
}

void Interpreter::Replay(const IterationMemo& memo, const Scope* outside) {
  ChargeScan(memo.text.bytes.size());
  memo.used = true;
  const size_t begin = root_out_.size();
  root_out_.Append(memo.text);
  if (root_out_.size() > options_.limits.output_bytes) {
    FailLimit("the rendered text is larger than a rendering may be");
  }
  for (const auto& [from, to] : memo.generations) generations_.emplace_back(begin + from, begin + to);
  for (const IterationMemo::Write& write : memo.writes) {
    const Value space = Lookup(write.slot, outside).value;
    dynamic_cast<Namespace&>(*space.object()).Set(write.attribute, write.value);
  }
}

void Interpreter::NoteName(int slot, const Found& found) {
  if (recording_->IsLoop(found.value)) return recording_->Refuse();
  if (!found.outside) return;
  const bool conversation =
      found.value.is_seq() && !found.value.seq()->items.empty() && IsGiven(found.value.seq()->items.front());
  recording_->ReadName(slot, found.value, (found.given && !conversation) || IsGiven(found.value));
}

Value Interpreter::NotedAttribute(const Expr& expr, const ScopePtr& scope) {
  const int slot = expr.items[0]->slot;
  const Found found = Lookup(slot, scope.get());
  const bool loop = recording_->IsLoop(found.value);
  const Namespace* const space =
      found.value.is_object() ? dynamic_cast<const Namespace*>(found.value.object().get()) : nullptr;
  if (!loop && (space == nullptr || !found.outside)) NoteName(slot, found);
  Value value = GetAttribute(found.value, expr.text);
  if (loop) {
    recording_->ReadLoop(expr.text, value, IsGiven(value));
  } else if (space != nullptr && found.outside) {
    recording_->ReadAttribute(slot, space, expr.text, value);
  }
  return value;
}

Value Interpreter::NotedItem(const Expr& expr, const ScopePtr& scope) {
  const int slot = expr.items[0]->slot;
  const Found found = Lookup(slot, scope.get());
  const Value key = Evaluate(*expr.items[1], scope);
  const bool one = found.outside && found.value.is_seq() && !found.value.seq()->is_generator() && key.is_int();
  if (!one) NoteName(slot, found);
  Value value = GetItem(found.value, key);
  if (one) recording_->ReadItem(slot, key.integer(), value, IsGiven(value));
  return value;
}

}  // namespace ingot::text::jinja
