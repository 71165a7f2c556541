#include "app/training/run_recorder.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "app/terminal/seconds.h"
#include "app/terminal/terminal.h"
#include "base/log.h"
#include "view/evaluation/eval_figures.h"

namespace ingot::app {
namespace {

// Returns [[layer, [each expert's load relative to the mean]], ...].
base::json::array LoadsJson(const trainer::ExpertLoads& loads) {
  base::json::array layers;
  for (const auto& [layer, experts] : loads) {
    layers.push_back(base::json::array{layer, base::json::array(experts.begin(), experts.end())});
  }
  return layers;
}

}  // namespace

base::json::object StepFields(const trainer::StepReport& report, const std::map<std::string, double>& metrics) {
  base::json::object fields;
  fields["version"] = report.version;
  for (const auto& [name, value] : metrics) fields[name] = value;
  base::json::array histogram;
  for (const auto& [age, tokens] : report.staleness_histogram) histogram.push_back(base::json::array{age, tokens});
  fields["async/staleness_histogram"] = std::move(histogram);
  if (!report.expert_loads.empty()) fields["experts/load"] = LoadsJson(report.expert_loads);
  return fields;
}

RunRecorder::RunRecorder(const TrainerParts& parts, base::RunLog& log, StepLine& line, RunTally& tally,
                         Evaluations& evaluations, const BestModel& best, const RetryPolicy& retry, double success,
                         double max_mismatch, std::chrono::nanoseconds start)
    : parts_(parts),
      log_(log),
      line_(line),
      tally_(tally),
      evaluations_(evaluations),
      best_(best),
      retry_(retry),
      success_(success),
      start_(start),
      engine_(*parts.clients.engine),
      lent_threads_(parts.compute),
      guard_(max_mismatch) {}

absl::Status RunRecorder::OnStep(const trainer::StepReport& report, const trainer::TrainBatch& batch) {
  const std::chrono::nanoseconds begun = retry_.clock->Now();
  std::map<std::string, double> metrics = report.metrics;
  metrics["perf/record_seconds"] = record_seconds_;
  metrics.merge(AgentMetrics(batch.groups));
  engine_.Add(report.step, report.version, metrics);
  lent_threads_.Add(metrics);
  const absl::Status guarded = CheckMismatch(report.step, metrics);
  Tally(report, metrics, batch.feed);
  INGOT_RETURN_IF_ERROR(Write(report.step, StepFields(report, metrics)));
  line_.Step(report.step, metrics, SecondsSince(*retry_.clock, start_));
  INGOT_RETURN_IF_ERROR(guarded);
  // If the run is stopped, completed evaluations are reported after it resumes.
  const absl::Status polled = retry_.stopped() ? absl::OkStatus() : evaluations_.Poll(OnEvaluation());
  record_seconds_ = SecondsSince(*retry_.clock, begun);
  return polled;
}

absl::Status RunRecorder::CheckMismatch(int64_t step, std::map<std::string, double>& metrics) {
  const std::string engine = parts_.clients.EngineOfTurn(step).first;
  const auto found = metrics.find("mismatch/logprob_abs_diff_mean");
  if (parts_.clients.engines.size() > 1 && found != metrics.end())
    metrics[absl::StrCat(found->first, "@engine:", engine)] = found->second;
  const absl::Status good = guard_.Add(engine, step, metrics);
  return good.ok() ? good : SetAside(engine, good);
}

absl::Status RunRecorder::SetAside(const std::string& engine, const absl::Status& why) {
  if (parts_.clients.set_aside == nullptr) return why;
  if (const absl::Status aside = parts_.clients.set_aside(engine, std::string(why.message())); !aside.ok()) {
    INGOT_LOG(warn, "{} cannot be set aside yet: {}", engine, std::string(aside.message()));
    return absl::OkStatus();  // at the next measured step
  }
  guard_.Restart(engine);
  line_.Note(absl::StrCat("warning: ", why.message(), ", and restart the server: ", engine,
                          " is set aside until then, and other engines continue"));
  return absl::OkStatus();
}

Evaluations::Report RunRecorder::OnEvaluation() {
  return [this](int64_t version, const v1::EvalStatusResponse& result) {
    base::json::object fields;
    fields["version"] = version;
    fields["eval/version"] = version;
    fields["eval/reward_mean"] = result.reward_mean();
    fields["eval/episodes"] = result.total();
    fields["eval/failed"] = result.failed();
    INGOT_RETURN_IF_ERROR(AddFigures(version, fields));
    AddGrades(version, fields);
    // A version that has a row is never reported again.
    INGOT_RETURN_IF_ERROR(KeepIfBest(version, result));
    INGOT_RETURN_IF_ERROR(Write(version, fields));
    line_.Note(fmt::format("evaluation of version {}: reward {} over {} held-out episodes", version,
                           FormatNumber("{:.3f}", result.reward_mean()), result.total()));
    return absl::OkStatus();
  };
}

absl::Status RunRecorder::KeepIfBest(int64_t version, const v1::EvalStatusResponse& result) {
  const VersionScore score{
      .version = version, .reward = result.reward_mean(), .episodes = result.total(), .failed = result.failed()};
  bool kept = false;
  INGOT_RETURN_IF_ERROR(
      Persist(retry_, absl::StrCat("keeping version ", version, " as the best"), [&]() -> absl::Status {
        INGOT_ASSIGN_OR_RETURN(kept, best_.Offer(score));
        return absl::OkStatus();
      }));
  if (kept) line_.Note(fmt::format("version {} is the best so far and is kept in {}", version, best_.folder()));
  return absl::OkStatus();
}

absl::Status RunRecorder::AddFigures(int64_t version, base::json::object& fields) {
  absl::StatusOr<std::map<std::string, double>> figures;
  const absl::Status read = Persist(retry_, "reading the episodes of an evaluation", [&] {
    figures = view::EvalFiguresOf(*parts_.clients.pool, version, success_);
    return figures.status();
  });
  if (absl::IsCancelled(read)) return read;
  if (!read.ok()) {
    INGOT_LOG(warn, "the record has only the mean reward of version {}: {}", version, read.ToString());
    return absl::OkStatus();
  }
  for (const auto& [name, value] : *figures) fields[name] = value;
  return absl::OkStatus();
}

void RunRecorder::AddGrades(int64_t version, base::json::object& fields) {
  if (parts_.eval_grades == nullptr) return;
  const auto metrics = parts_.eval_grades->Of(version);
  if (!metrics.ok()) {
    INGOT_LOG(warn, "evaluation of version {} has no grades: {}", version, metrics.status().ToString());
    return;
  }
  for (const auto& [name, value] : *metrics) fields[name] = value;
}

absl::Status RunRecorder::Write(int64_t step, const base::json::object& fields) {
  return Persist(retry_, "writing the run's metrics", [&] { return log_.Write(step, fields); });
}

void RunRecorder::Tally(const trainer::StepReport& report, const std::map<std::string, double>& metrics,
                        const v1::FeedStats& feed) {
  const auto get = [&metrics](const std::string& name) {
    const auto found = metrics.find(name);
    return found == metrics.end() ? 0.0 : found->second;
  };
  const double now = SecondsSince(*retry_.clock, start_);
  // Excludes the time before the first step, such as a warm start.
  const double seconds = last_step_at_ < 0 ? get("perf/step_seconds") : now - last_step_at_;
  last_step_at_ = now;
  const auto figure = [&metrics](const Figure& one) {
    const auto found = metrics.find(one.metric);
    return found == metrics.end() ? std::nan("") : found->second;
  };
  tally_.rewards.push_back(figure(tally_.reward));
  for (Curve& curve : tally_.curves) curve.values.push_back(figure(curve.figure));
  for (const auto& [age, tokens] : report.staleness_histogram) tally_.staleness[age] += tokens;
  tally_.step_seconds += seconds;
  tally_.trainer_idle_seconds += seconds * get("trainer/idle_ratio");
  tally_.rollout_idle_seconds += seconds * get("rollout/idle_ratio");
  tally_.episodes = feed.finished_episodes();
  for (const auto& [name, value] : metrics) {
    if (!std::isfinite(value)) continue;
    MetricMean& mean = tally_.means[name];
    mean.sum += value;
    ++mean.steps;
  }
  if (const auto found = metrics.find("mismatch/logprob_abs_diff_max"); found != metrics.end()) {
    tally_.mismatch_max = std::max(tally_.mismatch_max.value_or(0), found->second);
  }
}

}  // namespace ingot::app
