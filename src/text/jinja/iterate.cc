// Loops, and iterations of them that need not be run (iteration_memo.h).
#include <algorithm>

#include "text/jinja/budget.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/iteration_cache.h"
#include "text/jinja/loop_place.h"

namespace ingot::text::jinja {
namespace {

bool IsPlain(const Stmt& loop) { return loop.exprs[1] == nullptr && !loop.recursive; }

bool IsListOf(const Value& value, size_t count) {
  return value.is_seq() && !value.seq()->is_generator() && value.seq()->items.size() == count;
}

// Null: it is none.
const Namespace* NamespaceOf(const Value& value) {
  return value.is_object() ? dynamic_cast<const Namespace*>(value.object().get()) : nullptr;
}

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
  const auto loop = std::make_shared<LoopObject>(SharedItems(iterable), std::move(test), std::move(recurse), depth0);
  const Value loop_value{Value::ObjectPtr(loop)};
  struct AtEnd {
    LoopObject& loop;
    ~AtEnd() { loop.Finish(); }
  } const at_end{*loop};
  RunState run = FindRun(statement, *loop);
  bool completed = false;  // an iteration ran to its end: what `else` asks for in jinja2
  ScopePtr inner;
  while (true) {
    if (loop->passed() == run.at || loop->passed() == run.known_at) {
      const auto taken = EnterRun(statement, run, *loop, scope);
      completed = completed || (taken != nullptr && taken->completed);
    }
    if (!loop->Advance()) break;
    Renew(inner, scope);
    inner->variables.emplace_back(ast_.loop_slot, loop_value);
    const Value& item = loop->current();
    Assign(*statement.target, item, inner);
    Flow flow = Flow::kNormal;
    const auto tracked = WritesToRoot() ? tracked_.Find(item) : std::nullopt;
    RunComposer* const composer = run.composer.has_value() ? &*run.composer : nullptr;
    if (!tracked.has_value() || (!statement.writes && composer == nullptr)) {
      flow = Execute(statement.body, inner);
    } else {
      const size_t begin = out_->size();
      flow = statement.writes ? Iterate(statement, *loop, inner, options_.tracked.items[*tracked].kept, composer)
                              : Record(statement, *loop, inner, nullptr, composer);
      if (out_->size() > begin) passes_.push_back({*tracked, begin, out_->size()});
      if (composer != nullptr && (composer->refused() || composer->complete())) KeepRun(statement, run);
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
  const bool from_end = cache == nullptr && run != nullptr && run->reversed();
  Recording recording(inner->born, &loop, from_end);
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

Interpreter::RunState Interpreter::FindRun(const Stmt& statement, const LoopObject& loop) const {
  RunState run;
  const TrackedList& tracked = options_.tracked;
  const std::vector<Value>& items = loop.items();
  if (tracked.runs == nullptr || items.empty() || !IsPlain(statement)) return run;
  if (recording_ != nullptr || !WritesToRoot()) return run;
  const auto front = tracked_.Find(items.front()), back = tracked_.Find(items.back());
  run.reversed = back.has_value() && (!front.has_value() || *back < *front);
  // What a reversed one writes would be kept with its items too, by whose place from the end nothing is told.
  if (run.reversed && statement.writes) return run;
  const auto first = run.reversed ? back : front;
  if (!first.has_value() || *first >= tracked.together || tracked.together - *first > items.size()) return run;
  const size_t count = tracked.together - *first;
  for (size_t i = 0; i < count; ++i) {
    const Value& item = items[run.reversed ? items.size() - 1 - i : i];
    if (!item.is_dict() || !tracked_.Is(*first + i, item.dict().get())) return run;
  }
  const auto known = tracked.runs->Find(statement.loop);
  if (!known.has_value()) return run;
  run.at = run.reversed ? items.size() - count : 0;
  run.first = *first;
  run.count = count;
  if (*known == nullptr || (*known)->count > count) return run;
  run.known = *known;
  run.known_at = run.reversed ? items.size() - run.known->count : 0;
  return run;
}

std::shared_ptr<const RunMemo> Interpreter::EnterRun(const Stmt& statement, RunState& run, LoopObject& loop,
                                                     const ScopePtr& scope) {
  std::shared_ptr<const RunMemo> known;
  if (loop.passed() == run.known_at) {
    known = std::move(run.known);
    if (!RunHolds(*known, run, loop, scope)) known.reset();
    run.known_at = RunState::kNowhere;
  }
  const bool whole = known != nullptr && known->count == run.count;
  if (loop.passed() == run.at) {
    run.at = RunState::kNowhere;
    if (!whole) {
      run.composer.emplace(run.first, run.count, run.reversed);
      run.begin = root_out_.Here();
      run.passes = passes_.size();
      run.generations = generations_.size();
    }
  }
  if (known == nullptr) return nullptr;
  ReplayRun(*known, loop, scope);
  if (run.composer.has_value()) {
    run.composer->Add(*known);
    if (run.composer->complete()) KeepRun(statement, run);
  }
  return known;
}

bool Interpreter::RunHolds(const RunMemo& memo, const RunState& run, const LoopObject& loop, const ScopePtr& scope) {
  const std::vector<Value>& items = loop.items();
  if (memo.first != run.first || memo.reversed != run.reversed) return false;
  const bool borders = items.size() == memo.count;
  if (memo.borders.has_value() && *memo.borders != borders) return false;
  if (memo.beside.has_value()) {
    if (memo.beside->is_dict() == borders) return false;  // it had an item beside it, or none
    const Value* const beside = borders ? nullptr : &items[run.reversed ? run.known_at - 1 : memo.count];
    if (!borders && !(beside->is_dict() && beside->dict() == memo.beside->dict())) return false;
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
  const bool refused = run.composer->refused();
  const std::shared_ptr<RunMemo> memo = run.composer->Take();
  run.composer.reset();
  if (refused) return options_.tracked.runs->Keep(statement.loop, nullptr);
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

bool Interpreter::Holds(const IterationMemo& memo, const LoopObject& loop, const Scope* outside) {
  for (size_t i = 0; i < memo.namespaces.size(); ++i) {
    const Namespace* const space = NamespaceOf(*Lookup(memo.namespaces[i], outside).value);
    if (space == nullptr) return false;
    for (size_t j = 0; j < i; ++j) {
      if (space == NamespaceOf(*Lookup(memo.namespaces[j], outside).value)) return false;
    }
  }
  ChargeSteps(memo.reads.size());
  return std::all_of(memo.reads.begin(), memo.reads.end(),
                     [&](const IterationMemo::Read& read) { return Holds(read, loop, outside); });
}

bool Interpreter::Holds(const IterationMemo::Read& read, const LoopObject& loop, const Scope* outside) {
  using Kind = IterationMemo::Read::Kind;
  if (read.kind == Kind::kLoop) return IsSame(read, loop.Attribute(read.attribute).value_or(Value()));
  const Value& found = *Lookup(read.slot, outside).value;
  switch (read.kind) {
    case Kind::kAttribute:
      return IsSame(read, GetAttribute(found, read.attribute));
    case Kind::kItem: {
      if (!found.is_seq() || found.seq()->is_generator()) return false;
      return IsSame(read, GetItem(found, Value(read.index)));
    }
    case Kind::kCount:
      return IsListOf(found, loop.items().size());
    default:
      return IsSame(read, found);
  }
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
    dynamic_cast<Namespace&>(*Lookup(write.slot, outside).value->object()).Set(write.attribute, write.value);
  }
}

void Interpreter::NoteName(int slot, const Found& found) {
  const Value& value = *found.value;
  if (recording_->IsLoop(value)) return recording_->Refuse();
  if (!found.outside) return;
  const bool conversation = value.is_seq() && !value.seq()->items.empty() && IsGiven(value.seq()->items.front());
  recording_->ReadName(slot, value, (found.given && !conversation) || IsGiven(value));
}

Value Interpreter::NotedAttribute(const Expr& expr, const ScopePtr& scope) {
  const int slot = expr.items[0]->slot;
  const Found found = Lookup(slot, scope.get());
  const bool loop = recording_->IsLoop(*found.value);
  const Namespace* const space = NamespaceOf(*found.value);
  if (!loop && (space == nullptr || !found.outside)) NoteName(slot, found);
  Value value = GetAttribute(*found.value, expr.text);
  if (loop) {
    recording_->ReadLoop(expr.text, value, IsGiven(value));
  } else if (space != nullptr && found.outside) {
    recording_->ReadAttribute(slot, space, expr.text, value);
  }
  return value;
}

Value Interpreter::NotedItem(const Expr& expr, const ScopePtr& scope) {
  const int slot = expr.items[0]->slot;
  const Value key = Evaluate(*expr.items[1], scope);  // no expression sets a variable
  const Found found = Lookup(slot, scope.get());
  const Value& object = *found.value;
  const bool one = found.outside && object.is_seq() && !object.seq()->is_generator() && key.is_int();
  if (!one) NoteName(slot, found);
  Value value = GetItem(object, key);
  if (one) recording_->ReadItem(slot, key.integer(), value, IsGiven(value));
  return value;
}

std::optional<Value> Interpreter::NotedPlace(const Expr& expr, const ScopePtr& scope) {
  std::vector<int> lists;
  if (!CountsFromEnd(expr, ast_.loop_slot, lists)) return std::nullopt;
  const Value& loop = *Lookup(ast_.loop_slot, scope.get()).value;
  if (!recording_->IsLoop(loop)) return std::nullopt;
  const size_t count = static_cast<const LoopObject&>(*loop.object()).items().size();
  for (const int slot : lists) {
    const Found found = Lookup(slot, scope.get());
    if (!found.outside || !IsListOf(*found.value, count)) return std::nullopt;
  }
  for (const int slot : lists) recording_->ReadCount(slot);
  // What it is made of may be otherwise when it is the same again.
  Recording* const recording = std::exchange(recording_, nullptr);
  Value place = EvaluateInner(expr, scope);
  recording_ = recording;
  return place;
}

}  // namespace ingot::text::jinja
