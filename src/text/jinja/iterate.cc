// Loops, and iterations of them that need not be run (iteration_memo.h).
#include <algorithm>

#include "text/jinja/budget.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/iteration_cache.h"

namespace ingot::text::jinja {
namespace {

bool IsPlain(const Stmt& loop) { return loop.exprs[1] == nullptr && !loop.recursive; }

}  // namespace

Interpreter::Flow Interpreter::ExecuteFor(const Stmt& statement, const ScopePtr& scope) {
  const Value iterable = Evaluate(*statement.exprs[0], scope);
  return Loop(statement, scope, iterable, 0);
}

Interpreter::Flow Interpreter::Loop(const Stmt& statement, const ScopePtr& scope, const Value& iterable, int depth0) {
  LoopObject::Test test;
  if (statement.exprs[1] != nullptr) {
    test = [this, &statement, scope](const Value& item) {
      const ScopePtr inner = Inner(scope);
      Assign(*statement.target, item, inner);
      return Truth(Evaluate(*statement.exprs[1], inner));
    };
  }
  LoopObject::Recurse recurse;
  if (statement.recursive) {
    recurse = [this, &statement, scope](const Value& inner, int depth) {
      StrBuilder text;
      StrBuilder* const outer = std::exchange(out_, &text);
      try {
        const Level level(this);
        Loop(statement, scope, inner, depth);
      } catch (...) {
        out_ = outer;
        throw;
      }
      out_ = outer;
      return Value(text.Take());
    };
  }
  if (test != nullptr || recurse != nullptr) captured_.push_back(scope);
  if (iterable.is_seq()) ChargeSteps(iterable.seq()->items.size());
  const auto loop = std::make_shared<LoopObject>(Items(iterable), std::move(test), std::move(recurse), depth0);
  const Value loop_value{Value::ObjectPtr(loop)};
  struct AtEnd {
    LoopObject& loop;
    ~AtEnd() { loop.Finish(); }
  } const at_end{*loop};
  RunState run = FindRun(statement, *loop, scope);
  bool completed = false;  // an iteration ran to its end: what `else` asks for in jinja2
  if (run.known != nullptr) {
    ReplayRun(*run.known, *loop, scope);
    completed = run.known->completed;
  }
  RunComposer* composer = run.composer.has_value() ? &*run.composer : nullptr;
  while (loop->Advance()) {
    const ScopePtr inner = Inner(scope);
    inner->variables.emplace_back(ast_.loop_slot, loop_value);
    const Value& item = loop->current();
    Assign(*statement.target, item, inner);
    Flow flow = Flow::kNormal;
    const auto tracked = WritesToRoot() ? tracked_.Find(item) : std::nullopt;
    if (!tracked.has_value()) {
      flow = Execute(statement.body, inner);
    } else {
      const size_t begin = out_->size();
      flow = statement.writes ? Iterate(statement, *loop, inner, options_.tracked.items[*tracked].kept, composer)
                              : Execute(statement.body, inner);
      passes_.push_back({*tracked, begin, out_->size()});
      if (composer != nullptr && (composer->refused() || composer->complete())) {
        KeepRun(statement, run);
        composer = nullptr;
      }
    }
    if (flow == Flow::kBreak) break;
    completed = completed || flow == Flow::kNormal;
  }
  if (!completed) return Execute(statement.else_body, Inner(scope));
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::Iterate(const Stmt& statement, const LoopObject& loop, const ScopePtr& inner,
                                       IterationCache* cache, RunComposer* run) {
  if (cache == nullptr || !IsPlain(statement) || recording_ != nullptr) {
    if (run != nullptr) run->Refuse();
    return Execute(statement.body, inner);
  }
  const auto known = cache->Find(statement.loop);
  if (!known.has_value()) {
    return run == nullptr ? Execute(statement.body, inner) : Record(statement, loop, inner, nullptr, run);
  }
  const IterationMemo* const memo = known->get();
  if (memo == nullptr || !Holds(*memo, loop, inner->parent.get())) return Record(statement, loop, inner, cache, run);
  Replay(*memo, inner->parent.get());
  if (run != nullptr) run->Add(*memo);
  return memo->continued ? Flow::kContinue : Flow::kNormal;
}

Interpreter::Flow Interpreter::Record(const Stmt& statement, const LoopObject& loop, const ScopePtr& inner,
                                      IterationCache* cache, RunComposer* run) {
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
  const bool refused = recording.refused() || flow == Flow::kBreak || passes_.size() > passes;
  const bool wrote = root_out_.size() > begin.bytes;  // one that only looks does little that could be saved
  if (cache != nullptr && (refused || !wrote)) cache->Keep(statement.loop, nullptr);
  if (refused) {
    if (run != nullptr) run->Refuse();
    return flow;
  }
  const std::shared_ptr<IterationMemo> memo = recording.Take();
  memo->continued = flow == Flow::kContinue;
  if (run != nullptr) run->Add(*memo);
  if (cache == nullptr || !wrote) return flow;
  memo->text = root_out_.CopySince(begin);
  for (size_t i = generations; i < generations_.size(); ++i) {
    memo->generations.emplace_back(generations_[i].first - begin.bytes, generations_[i].second - begin.bytes);
  }
  cache->Keep(statement.loop, memo);
  return flow;
}

Interpreter::RunState Interpreter::FindRun(const Stmt& statement, const LoopObject& loop, const ScopePtr& scope) {
  RunState run;
  const TrackedList& tracked = options_.tracked;
  const std::vector<Value>& items = loop.items();
  if (tracked.runs == nullptr || !statement.writes || !IsPlain(statement)) return run;
  if (recording_ != nullptr || !WritesToRoot()) return run;
  const auto first = items.empty() ? std::nullopt : tracked_.Find(items.front());
  if (!first.has_value() || *first >= tracked.together || tracked.together - *first > items.size()) return run;
  for (size_t i = *first; i < tracked.together; ++i) {
    const Value& item = items[i - *first];
    if (!item.is_dict() || !tracked_.Is(i, item.dict().get())) return run;
  }
  const auto known = tracked.runs->Find(statement.loop);
  if (!known.has_value()) return run;
  if (*known != nullptr && (*known)->first == *first && RunHolds(**known, loop, scope)) {
    run.known = *known;
    return run;
  }
  run.composer.emplace(*first, tracked.together - *first);
  run.begin = root_out_.Here();
  run.passes = passes_.size();
  run.generations = generations_.size();
  return run;
}

bool Interpreter::RunHolds(const RunMemo& memo, const LoopObject& loop, const ScopePtr& scope) const {
  const std::vector<Value>& items = loop.items();
  const bool ends = items.size() == memo.count;
  if (memo.ends.has_value() && *memo.ends != ends) return false;
  if (memo.next.has_value()) {
    if (memo.next->is_dict() == ends) return false;  // it had a next item, or none
    if (!ends && !(items[memo.count].is_dict() && items[memo.count].dict() == memo.next->dict())) return false;
  }
  return Holds(memo, loop, scope.get());
}

void Interpreter::ReplayRun(const RunMemo& memo, LoopObject& loop, const ScopePtr& scope) {
  const size_t begin = root_out_.size();
  Replay(memo, scope.get());
  for (const Rendered::Pass& pass : memo.passes) passes_.push_back({pass.index, begin + pass.begin, begin + pass.end});
  loop.Skip(memo.count);
}

void Interpreter::KeepRun(const Stmt& statement, RunState& run) {
  if (run.composer->refused()) return options_.tracked.runs->Keep(statement.loop, nullptr);
  const std::shared_ptr<RunMemo> memo = run.composer->Take();
  memo->text = root_out_.CopySince(run.begin);
  for (size_t i = run.generations; i < generations_.size(); ++i) {
    memo->generations.emplace_back(generations_[i].first - run.begin.bytes, generations_[i].second - run.begin.bytes);
  }
  for (size_t i = run.passes; i < passes_.size(); ++i) {
    const Rendered::Pass& pass = passes_[i];
    memo->passes.push_back({pass.index, pass.begin - run.begin.bytes, pass.end - run.begin.bytes});
  }
  options_.tracked.runs->Keep(statement.loop, memo);
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
