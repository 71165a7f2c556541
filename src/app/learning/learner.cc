#include "app/learning/learner.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "app/learning/answer_groups.h"
#include "app/learning/deployment_gate.h"
#include "app/training/trainer_start.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/waits.h"
#include "trainer/checkpoints/checkpoint_copy.h"

namespace ingot::app {
namespace {

constexpr std::chrono::milliseconds kPoll{100};

std::string NameOfEvaluation(const Round& round) { return absl::StrCat("round-", round.number); }

}  // namespace

absl::StatusOr<std::unique_ptr<Learner>> Learner::Start(const LearnerParts& parts, Rounds& rounds, bool resume) {
  INGOT_ASSIGN_OR_RETURN(std::vector<view::Requirement> requirements,
                         ParseLearnRequirements(parts.config.learn.require));
  auto learner = std::unique_ptr<Learner>(new Learner(parts, rounds, std::move(requirements)));
  const bool decided = !rounds.all().empty() && rounds.all().back().outcome != Outcome::kOpen;
  if (decided) INGOT_RETURN_IF_ERROR(rounds.Settle(rounds.all().back()));
  INGOT_RETURN_IF_ERROR(learner->LoadDeployed(resume));
  if (learner->trainer_->version() == 0) {
    NoVersionSink versions;
    INGOT_RETURN_IF_ERROR(SaveStart(*learner->trainer_, parts.model, parts.dir, versions, parts.retry));
  }
  INGOT_RETURN_IF_ERROR(learner->Publish());
  return learner;
}

absl::Status Learner::LoadDeployed(bool resume) {
  trainer_.reset();  // frees its memory first
  INGOT_ASSIGN_OR_RETURN(trainer_, StartOrResume(parts_.config, parts_.dir, parts_.model, /*ranks=*/nullptr, resume,
                                                 parts_.line, *parts_.retry.stop));
  const Round* const deployed = rounds_.deployed();
  if (deployed == nullptr || deployed->version == trainer_->version()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("round ", deployed->number, " deployed version ", deployed->version,
                                          ", but the newest intact checkpoint in ", parts_.dir.checkpoints(),
                                          " is version ", trainer_->version(), ": restore it from a backup"));
}

absl::Status Learner::Publish() {
  INGOT_ASSIGN_OR_RETURN(std::shared_ptr<const weights::Snapshot> snapshot, trainer_->TakeSnapshot());
  return PublishUntilLive(parts_.publisher, std::move(snapshot), /*retain=*/false, parts_.retry, parts_.engine_fault)
      .status();
}

absl::Status Learner::BeginRun(base::RunLog& log) {
  if (!rounds_.all().empty()) return absl::OkStatus();
  Round first;
  first.began_unix_ns = base::Clock::Real().UnixNanos();
  const std::string folder = absl::StrCat(parts_.dir.checkpoints(), "/", trainer::CheckpointName(0));
  absl::StatusOr<view::Figures> figures = parts_.evaluate(folder, NameOfEvaluation(first));
  if (!figures.ok()) return base::Annotate(figures.status(), "evaluating the first version");
  INGOT_RETURN_IF_ERROR(
      base::Annotate(DecideDeployment(requirements_, *figures, rounds_.deployed(), first), "learn.require"));
  first.outcome = Outcome::kDeployed;  // there is nothing else to serve
  first.decided_unix_ns = base::Clock::Real().UnixNanos();
  INGOT_RETURN_IF_ERROR(Record(first, log));
  INGOT_RETURN_IF_ERROR(Store(first));
  Report(first);
  return absl::OkStatus();
}

std::string Learner::WhyTrainingStops() const {
  const RunConfig& config = parts_.config;
  if (config.learn.max_rejected > 0 && rejected_ >= config.learn.max_rejected) {
    return absl::StrCat(rejected_, " rounds in a row were not deployed (learn.max_rejected): training stops, ",
                        "and version ", trainer_->version(),
                        " stays deployed. The last: ", absl::StrJoin(rounds_.all().back().reasons, "; "));
  }
  const int64_t steps = config.learn.round_answers / config.scheduler.groups_per_step;
  if (trainer_->version() + steps > config.trainer.total_steps) {
    return absl::StrCat("the next round would exceed scheduler.total_steps (", config.trainer.total_steps,
                        "): training stops, and version ", trainer_->version(), " stays deployed");
  }
  return "";
}

absl::Status Learner::Run(RatedAnswers& answers, base::RunLog& log) {
  INGOT_RETURN_IF_ERROR(BeginRun(log));
  if (const Round& last = rounds_.all().back(); last.outcome == Outcome::kOpen) {
    parts_.line.Note(absl::StrCat("round ", last.number, " continues"));
    INGOT_RETURN_IF_ERROR(Finish(Round(last), log));
  }
  std::string noted;
  while (!parts_.retry.stopped()) {
    INGOT_RETURN_IF_ERROR(parts_.engine_fault());
    INGOT_RETURN_IF_ERROR(RollBackIfAsked(log));
    const std::string stops = WhyTrainingStops();
    if (!stops.empty() && stops != noted) parts_.line.Note(stops);
    noted = stops;
    const int64_t due = stops.empty() ? DueAnswers(answers) : 0;
    if (due == 0) {
      const base::Wait wait("feedback on answers");
      std::this_thread::sleep_for(kPoll);
      continue;
    }
    INGOT_ASSIGN_OR_RETURN(std::optional<Round> round, BeginRound(answers, due));
    if (round.has_value()) INGOT_RETURN_IF_ERROR(Finish(*std::move(round), log));
  }
  return absl::CancelledError("the server was stopped");
}

std::optional<Rollback> Learner::AskedRollback() {
  absl::StatusOr<std::optional<Rollback>> asked = PendingRollback(rounds_);
  if (asked.ok()) return *asked;
  if (std::string why(asked.status().message()); why != rollback_fault_) {
    parts_.line.Note(why);
    rollback_fault_ = std::move(why);
  }
  return std::nullopt;
}

absl::Status Learner::RollBackIfAsked(base::RunLog& log) {
  const std::optional<Rollback> asked = AskedRollback();
  if (!asked.has_value()) return absl::OkStatus();
  const auto drop = [&] {
    return Persist(parts_.retry, "removing the request to roll back", [&] { return DropRollback(rounds_); });
  };
  const Round& last = rounds_.all().back();
  const bool done = last.restores == asked->to && last.began_unix_ns == asked->requested_unix_ns;
  if (done) return drop();  // the process died between the round's decision and this
  Round round;
  round.number = std::ssize(rounds_.all());
  round.from = trainer_->version();
  round.version = round.from + 1;
  round.restores = asked->to;
  round.began_unix_ns = asked->requested_unix_ns;
  INGOT_RETURN_IF_ERROR(Store(round));
  INGOT_RETURN_IF_ERROR(drop());
  return Finish(std::move(round), log);
}

int64_t Learner::DueAnswers(const RatedAnswers& answers) const {
  const RatedAnswers::Waiting waiting = answers.waiting();
  const LearnOptions& options = parts_.config.learn;
  if (waiting.answers >= options.round_answers) return options.round_answers;
  const bool late = options.round_seconds > 0 && waiting.oldest >= base::FromSeconds(options.round_seconds);
  return late ? waiting.answers / parts_.config.scheduler.groups_per_step * parts_.config.scheduler.groups_per_step : 0;
}

absl::StatusOr<std::optional<Round>> Learner::BeginRound(RatedAnswers& answers, int64_t count) {
  Round round;
  round.number = std::ssize(rounds_.all());
  round.from = trainer_->version();
  round.answers = answers.Take(count, round.number);
  if (round.answers.empty()) return std::nullopt;
  round.version = round.from + std::ssize(round.answers) / parts_.config.scheduler.groups_per_step;
  round.began_unix_ns = base::Clock::Real().UnixNanos();
  INGOT_RETURN_IF_ERROR(Store(round));
  parts_.line.Note(fmt::format("round {} trains version {} on {} answers with a mean reward of {:.3f}", round.number,
                               round.version, round.answers.size(), round.reward_mean()));
  return round;
}

absl::Status Learner::Finish(Round round, base::RunLog& log) {
  INGOT_RETURN_IF_ERROR(Decide(round));
  round.decided_unix_ns = base::Clock::Real().UnixNanos();
  INGOT_RETURN_IF_ERROR(Record(round, log));
  INGOT_RETURN_IF_ERROR(Store(round));
  rejected_ = round.outcome == Outcome::kDeployed ? 0 : rejected_ + 1;
  Report(round);
  return Settle(round);
}

bool Learner::RejectIfRollbackAsked(Round& round) {
  const std::optional<Rollback> asked = AskedRollback();
  if (!asked.has_value()) return false;
  round.outcome = Outcome::kRejected;
  round.reasons.push_back(absl::StrCat("the operator asked to roll back to version ", asked->to));
  return true;
}

absl::Status Learner::Decide(Round& round) {
  if (round.restores >= 0) {
    const absl::Status restored = Restore(round);
    return restored.ok() ? restored : FailRound(restored, "rollback", round);
  }
  if (RejectIfRollbackAsked(round)) return absl::OkStatus();
  const absl::StatusOr<std::string> candidate = Candidate(round);
  if (!candidate.ok()) return FailRound(candidate.status(), "training", round);
  const absl::StatusOr<view::Figures> figures = parts_.evaluate(*candidate, NameOfEvaluation(round));
  if (!figures.ok()) return FailRound(figures.status(), "evaluation", round);
  const absl::Status decided = DecideDeployment(requirements_, *figures, rounds_.deployed(), round);
  if (!decided.ok()) return FailRound(decided, "learn.require", round);
  if (round.outcome == Outcome::kDeployed) RejectIfRollbackAsked(round);
  return absl::OkStatus();
}

absl::Status Learner::Restore(Round& round) {
  const std::string from = absl::StrCat(parts_.dir.checkpoints(), "/", trainer::CheckpointName(round.restores));
  INGOT_RETURN_IF_ERROR(trainer::CopyCheckpoint(from, rounds_.CandidateRoot(round.number), round.version).status());
  for (const Round& earlier : rounds_.all()) {
    const bool made_it = earlier.outcome == Outcome::kDeployed && earlier.version == round.restores;
    if (made_it) round.evaluation = earlier.evaluation;
  }
  round.outcome = Outcome::kDeployed;
  round.reasons = {absl::StrCat("the operator rolled back to version ", round.restores)};
  return absl::OkStatus();
}

absl::StatusOr<std::string> Learner::Candidate(const Round& round) {
  const std::string root = rounds_.CandidateRoot(round.number);
  const absl::StatusOr<trainer::CheckpointInfo> trained = trainer::LatestCheckpoint(root);
  if (trained.ok() && trained->step == round.version) return trained->path;
  INGOT_RETURN_IF_ERROR(TrainRound(round));
  trainer::CheckpointInfo saved;
  INGOT_RETURN_IF_ERROR(Persist(parts_.retry, absl::StrCat("writing candidate ", round.version), [&]() -> absl::Status {
    INGOT_ASSIGN_OR_RETURN(saved, trainer_->SaveCheckpoint(root, parts_.model.text.files));
    return absl::OkStatus();
  }));
  return saved.path;
}

absl::Status Learner::TrainRound(const Round& round) {
  INGOT_ASSIGN_OR_RETURN(std::vector<v1::Group> groups, ReadGroups(parts_.pool, round.answers));
  const auto per_step = static_cast<size_t>(parts_.config.scheduler.groups_per_step);
  if (groups.empty() || groups.size() % per_step != 0) {
    return absl::InvalidArgumentError(absl::StrCat("the round has ", groups.size(),
                                                   " answers, which is not a multiple of ",
                                                   "scheduler.groups_per_step (", per_step, ")"));
  }
  for (size_t first = 0; first < groups.size(); first += per_step) {
    if (parts_.retry.stopped()) return absl::CancelledError("the server was stopped");
    trainer::TrainBatch batch;
    batch.step = trainer_->version();
    for (size_t i = first; i < first + per_step; ++i) batch.groups.push_back(std::move(groups[i]));
    INGOT_ASSIGN_OR_RETURN(trainer::StepReport report, trainer_->TrainStep(batch));
    step_metrics_ = std::move(report.metrics);
  }
  return absl::OkStatus();
}

absl::Status Learner::Settle(const Round& round) {
  INGOT_RETURN_IF_ERROR(
      Persist(parts_.retry, absl::StrCat("settling round ", round.number), [&] { return rounds_.Settle(round); }));
  const bool deployed = round.outcome == Outcome::kDeployed;
  const int64_t serves = deployed ? round.version : round.from;
  // After a round that an earlier process trained or that must be undone, the trainer has a different version.
  if (!deployed || trainer_->version() != serves) INGOT_RETURN_IF_ERROR(LoadDeployed(/*resume=*/true));
  return deployed ? Publish() : absl::OkStatus();
}

absl::Status Learner::Record(const Round& round, base::RunLog& log) {
  base::json::object fields;
  fields["version"] = round.version;
  for (const auto& [name, value] : step_metrics_) fields[name] = value;
  for (const auto& [name, value] : round.evaluation) fields[name] = value;
  if (!round.answers.empty()) fields["reward/mean"] = round.reward_mean();
  fields["learn/answers"] = std::ssize(round.answers);
  fields["learn/judged"] = std::ranges::count_if(round.answers, [](const RatedAnswer& one) { return one.judged; });
  if (round.restores >= 0) fields["learn/restored"] = round.restores;
  fields["learn/deployed"] = round.outcome == Outcome::kDeployed ? 1 : 0;
  step_metrics_.clear();
  return Persist(parts_.retry, "writing the run's metrics", [&] { return log.Write(round.number, fields); });
}

absl::Status Learner::Store(const Round& round) {
  return Persist(parts_.retry, absl::StrCat("writing round ", round.number), [&] { return rounds_.Store(round); });
}

void Learner::Report(const Round& round) {
  parts_.line.Note(absl::StrCat("round ", round.number, " is ", NameOf(round.outcome), ", version ", round.version,
                                ": ", absl::StrJoin(round.reasons, "; ")));
}

}  // namespace ingot::app
