#include "loggers/otlp.h"

#include <algorithm>
#include <cmath>

#include "base/checksum.h"
#include "base/log.h"
#include "base/printable.h"
#include "tree/call_end.h"
#include "tree/episode_return.h"
#include "tree/render.h"

namespace ingot::loggers {
namespace {

using base::json::array;
using base::json::object;

constexpr size_t kMaxSpans = 2000;  // per request

// Returns 16 hexadecimal digits for `text`. They are never all zero, which means "no id".
std::string SpanId(const std::string& text) {
  return fmt::format("{:016x}", base::Checksum64(std::string_view(text)) | 1);
}
std::string TraceId(const std::string& text) { return SpanId(text) + SpanId(text + "/trace"); }

object Attribute(const std::string& key, object value) { return {{"key", key}, {"value", std::move(value)}}; }
object Attribute(const std::string& key, const std::string& text) {
  return Attribute(key, object{{"stringValue", base::Printable(text)}});
}
object Attribute(const std::string& key, double number) { return Attribute(key, object{{"doubleValue", number}}); }
object Attribute(const std::string& key, int64_t number) {
  // Protobuf JSON represents 64-bit integers as strings.
  return Attribute(key, object{{"intValue", absl::StrCat(number)}});
}

struct SpanParts {
  std::string trace, id, parent, name;
  int64_t from_ns = 0, to_ns = 0;
  array attributes = {};
  std::string error = {};  // empty = none
};

object Span(SpanParts parts) {
  object span{{"traceId", parts.trace},
              {"spanId", parts.id},
              {"name", parts.name},
              {"kind", 1},  // internal
              {"startTimeUnixNano", absl::StrCat(parts.from_ns)},
              {"endTimeUnixNano", absl::StrCat(std::max(parts.from_ns, parts.to_ns))},
              {"attributes", std::move(parts.attributes)}};
  if (!parts.parent.empty()) span["parentSpanId"] = parts.parent;
  if (!parts.error.empty()) span["status"] = object{{"code", 2}, {"message", base::Printable(parts.error)}};
  return span;
}

object CallSpan(const std::string& trace, const std::string& parent, const v1::Call& call) {
  array attributes;
  attributes.push_back(Attribute("gen_ai.operation.name", std::string("chat")));
  attributes.push_back(Attribute("gen_ai.request.model", call.model()));
  attributes.push_back(Attribute("gen_ai.usage.input_tokens", call.context_tokens()));
  attributes.push_back(Attribute("ingot.cached_tokens", static_cast<int64_t>(call.cached_tokens())));
  attributes.push_back(Attribute("ingot.call", static_cast<int64_t>(call.sequence())));
  if (!call.branch().empty()) attributes.push_back(Attribute("ingot.branch", call.branch()));
  if (!call.role().empty()) attributes.push_back(Attribute("ingot.role", call.role()));
  if (!call.fork_cause().empty()) attributes.push_back(Attribute("ingot.fork_cause", call.fork_cause()));
  const v1::CallTimes& times = call.times();
  const bool failed = tree::BrokeOff(call);
  if (times.first_token_unix_ns() != 0) {
    attributes.push_back(Attribute("ingot.first_token_seconds",
                                   static_cast<double>(times.first_token_unix_ns() - times.arrival_unix_ns()) * 1e-9));
  }
  return Span({.trace = trace,
               .id = SpanId(call.call_id()),
               .parent = parent,
               .name = "call",
               .from_ns = times.arrival_unix_ns(),
               .to_ns = times.end_unix_ns(),
               .attributes = std::move(attributes),
               .error = failed ? "the call was not answered" : ""});
}

}  // namespace

array SpansOf(const std::string& run, const v1::Group& group, const view::JournalGroup& journalled) {
  array spans;
  for (const v1::EpisodeTree& tree : group.episodes()) {
    const v1::Episode& episode = tree.episode();
    const std::string trace = TraceId(episode.episode_id()), id = SpanId(episode.episode_id());
    const bool evaluated = episode.purpose() == v1::PURPOSE_EVAL;
    array attributes;
    attributes.push_back(Attribute("ingot.run", run));
    attributes.push_back(Attribute("ingot.episode", episode.episode_id()));
    attributes.push_back(Attribute("ingot.purpose", std::string(evaluated ? "eval" : "train")));
    attributes.push_back(Attribute("ingot.group", group.group_id()));
    attributes.push_back(Attribute("ingot.sample", static_cast<int64_t>(episode.ref().sample_index())));
    attributes.push_back(Attribute("ingot.task", episode.task().task_id()));
    attributes.push_back(Attribute("ingot.scaffold", episode.scaffold()));
    attributes.push_back(Attribute("ingot.state", tree::StateName(episode.state())));
    attributes.push_back(Attribute("ingot.reward", tree::ReturnOf(episode)));
    attributes.push_back(Attribute("ingot.version", episode.admitted_version()));
    if (journalled.step >= 0) attributes.push_back(Attribute("ingot.step", journalled.step));
    const bool failed = episode.state() != v1::EPISODE_FINISHED;
    spans.push_back(
        Span({.trace = trace,
              .id = id,
              .parent = "",
              .name = "episode",
              .from_ns = episode.opened_unix_ns(),
              .to_ns = episode.ended_unix_ns(),
              .attributes = std::move(attributes),
              .error = failed ? absl::StrCat(tree::StateName(episode.state()), " ", episode.cause()) : ""}));
    for (const v1::Call& call : tree.calls()) spans.push_back(CallSpan(trace, id, call));
    if (journalled.rewarded_ns == 0 || episode.ended_unix_ns() == 0) continue;
    array terms;
    for (const v1::TermValue& term : episode.grade().terms()) {
      terms.push_back(Attribute("ingot.reward." + base::Printable(term.term()), tree::ValueOf(term)));
    }
    spans.push_back(Span({.trace = trace,
                          .id = SpanId(episode.episode_id() + "/grading"),
                          .parent = id,
                          .name = "grading",
                          .from_ns = episode.ended_unix_ns(),
                          .to_ns = journalled.rewarded_ns,
                          .attributes = std::move(terms)}));
  }
  return spans;
}

object SpanOf(const std::string& run, const view::Row& row) {
  array attributes;
  attributes.push_back(Attribute("ingot.run", run));
  attributes.push_back(Attribute("ingot.step", row.step));
  for (const char* name : {"reward/mean", "perf/wait_seconds", "perf/train_seconds", "perf/publish_seconds",
                           "perf/checkpoint_seconds", "perf/tokens_per_second", "batch/loss_tokens", "sft/loss",
                           "sft/nll", "sft/tokens_per_second", "dpo/loss", "dpo/accuracy", "dpo/tokens_per_second"}) {
    if (row.Has(name) && std::isfinite(row.Get(name))) attributes.push_back(Attribute(name, row.Get(name)));
  }
  const std::string id = absl::StrCat(run, "/step/", row.step);
  const auto to = static_cast<int64_t>(row.time * 1e9);
  // A supervised step's row has only the pass time.
  const double seconds = row.Get("perf/step_seconds", row.Get("perf/pass_seconds"));
  return Span({.trace = TraceId(id),
               .id = SpanId(id),
               .parent = "",
               .name = "step",
               .from_ns = to - static_cast<int64_t>(seconds * 1e9),
               .to_ns = to,
               .attributes = std::move(attributes)});
}

namespace {

// Returns true if the row belongs to a step, supervised or not. Evaluation rows do not.
bool IsStep(const view::Row& row) {
  return row.Has("perf/step_seconds") || row.Has("sft/tokens_per_second") || row.Has("dpo/tokens_per_second");
}

}  // namespace

absl::Status Otlp::Send(array spans) {
  for (size_t begin = 0; begin < spans.size(); begin += kMaxSpans) {
    array some;
    for (size_t i = begin; i < std::min(spans.size(), begin + kMaxSpans); ++i) some.push_back(std::move(spans[i]));
    object resource{
        {"attributes", array{Attribute("service.name", std::string("ingot")), Attribute("ingot.run", run_)}}};
    const object body{{"resourceSpans", array{object{{"resource", std::move(resource)},
                                                     {"scopeSpans", array{object{{"scope", object{{"name", "ingot"}}},
                                                                                 {"spans", std::move(some)}}}}}}}};
    INGOT_RETURN_IF_ERROR(post_(options_.url + "/v1/traces", base::PrintJson(body), options_.key).status());
  }
  return absl::OkStatus();
}

absl::Status Otlp::Rows(std::span<const view::Row> rows) {
  array spans;
  for (const view::Row& row : rows) {
    if (IsStep(row)) spans.push_back(SpanOf(run_, row));
  }
  return Send(std::move(spans));
}

absl::Status Otlp::Group(const v1::Group& group, const view::JournalGroup& journalled) {
  return Send(SpansOf(run_, group, journalled));
}

}  // namespace ingot::loggers
