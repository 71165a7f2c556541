#include "trainer/loop.h"

#include <chrono>
#include <utility>

#include "base/log.h"
#include "base/work.h"

namespace ingot::trainer {
namespace {

void ReportFeed(const v1::FeedStats& feed, StepMetrics& metrics) {
  metrics["scheduler/head"] = static_cast<double>(feed.head());
  metrics["scheduler/window"] = static_cast<double>(feed.window());
  metrics["scheduler/budget"] = static_cast<double>(feed.budget());
  metrics["scheduler/admitted_unreleased"] = static_cast<double>(feed.admitted_unreleased());
  metrics["scheduler/finished_outside_window"] = static_cast<double>(feed.finished_outside_window());
  metrics["scheduler/dropped_groups"] = static_cast<double>(feed.dropped());
  metrics["scheduler/failed_groups"] = static_cast<double>(feed.failed());
  metrics["scheduler/running_episodes"] = static_cast<double>(feed.running_episodes());
  metrics["scheduler/finished_episodes"] = static_cast<double>(feed.finished_episodes());
}

// Wall time of one step in seconds, with the parts that are reported as fractions. The fractions sum to 1.
struct StepTimes {
  double wait = 0;  // waiting for the batch, which means for rollout
  double train = 0;
  double checkpoint = 0;
  double publish = 0;
  double total = 0;
};

void ReportTimes(const StepTimes& times, StepMetrics& metrics) {
  const double data = metrics["perf/data_seconds"];
  const double total = times.total > 0 ? times.total : 1;
  metrics["trainer/idle_ratio"] = times.wait / total;
  metrics["perf/share_rollout"] = times.wait / total;
  metrics["perf/share_data"] = data / total;
  metrics["perf/share_training"] = (times.train - data) / total;
  metrics["perf/share_io"] = (times.checkpoint + times.publish) / total;
  metrics["perf/wait_seconds"] = times.wait;
  metrics["perf/checkpoint_seconds"] = times.checkpoint;
  metrics["perf/publish_seconds"] = times.publish;
  metrics["perf/step_seconds"] = times.total;
  metrics["perf/tokens_per_second"] = metrics["tree/unmerged_tokens"] / total;
}

void ReportPublish(const weights::PublishStats& stats, StepMetrics& metrics) {
  metrics["perf/update_weights_density"] = stats.density;
  metrics["perf/update_weights_wire_bytes"] = static_cast<double>(stats.wire_bytes);
  metrics["perf/update_weights_full_bytes"] = static_cast<double>(stats.full_bytes);
  metrics["perf/update_weights_save_ms"] = stats.save_ms;
  metrics["perf/update_weights_encode_ms"] = stats.encode_ms;
  metrics["perf/update_weights_send_ms"] = stats.send_ms;
  metrics["perf/update_weights_fetch_ms"] = stats.fetch_ms;
  metrics["perf/update_weights_apply_ms"] = stats.apply_ms;
  metrics["perf/update_weights_wait_ms"] = stats.wait_ms;
  metrics["perf/update_weights_pause_ms"] = stats.pause_ms;
  metrics["perf/update_weights_publish_ms"] = stats.publish_ms;
  metrics["perf/update_weights_version_lag"] = static_cast<double>(stats.version_lag);
  metrics["perf/update_weights_full_copies"] = stats.full_copies;
}

}  // namespace

// Takes the device for a step, and gives it back when destroyed.
class TrainLoop::Turn {
 public:
  explicit Turn(const TrainLoop& loop) : loop_(loop), probe_(loop.probe_) {}
  ~Turn() { Give(); }

  absl::Status Take(int64_t step) {
    if (loop_.options_.take_device == nullptr) return absl::OkStatus();
    const auto start = loop_.clock_.Now();
    SampleProbe(step);
    const auto sampled = loop_.clock_.Now();
    taken_ = true;  // an engine that is parked resumes even if another one could not be
    INGOT_RETURN_IF_ERROR(loop_.options_.take_device());
    probe_seconds_ = Seconds(sampled - start);
    take_seconds_ = Seconds(loop_.clock_.Now() - sampled);
    return absl::OkStatus();
  }
  void Give() {
    if (!std::exchange(taken_, false)) return;
    const auto start = loop_.clock_.Now();
    loop_.options_.give_device();
    give_seconds_ = Seconds(loop_.clock_.Now() - start);
  }
  const ProbeSource& probe() const { return probe_; }
  void Report(StepMetrics& metrics) const {
    if (loop_.options_.take_device == nullptr) return;
    metrics["perf/switch_to_train_ms"] = 1e3 * take_seconds_;
    metrics["perf/switch_to_rollout_ms"] = 1e3 * give_seconds_;
    metrics["perf/probe_sampling_seconds"] = probe_seconds_;
  }

 private:
  // A parked engine does not sample, so the calls are sampled now, and the step only scores them.
  void SampleProbe(int64_t step) {
    const int64_t tokens = loop_.trainer_.options().probe_tokens;
    if (probe_ == nullptr || tokens <= 0) return;
    const base::WorkPart shown("probe: sampling by the engine");
    probe_ = [calls = loop_.probe_(step, tokens)](int64_t, int64_t) { return calls; };
  }

  const TrainLoop& loop_;
  ProbeSource probe_;
  bool taken_ = false;
  double probe_seconds_ = 0, take_seconds_ = 0, give_seconds_ = 0;
};

TrainLoop::TrainLoop(const LoopOptions& options, Trainer& trainer, BatchSource& source, VersionSink& sink,
                     StepObserver* observer, ProbeSource probe, const base::Clock& clock)
    : options_(options),
      trainer_(trainer),
      source_(source),
      sink_(sink),
      observer_(observer),
      probe_(std::move(probe)),
      clock_(clock) {}

absl::Status TrainLoop::Run() {
  INGOT_LOG(info, "{}", trainer_.Describe());
  if (options_.publish_start) {
    INGOT_RETURN_IF_ERROR(
        base::Annotate(PublishCurrent().status(), absl::StrCat("publishing version ", trainer_.version())));
  }
  saved_ = trainer_.version();
  while (trainer_.version() < End()) {
    const int64_t step = trainer_.version();
    const absl::Status status = RunStep(step);
    if (status.ok()) continue;
    if (const absl::Status saved = whole_ ? SaveCheckpoint() : absl::OkStatus(); !saved.ok()) {
      INGOT_LOG(error, "cannot save version {}: {}", trainer_.version(), saved.ToString());
    }
    return base::Annotate(status, absl::StrCat("step ", step));
  }
  return SaveDueCheckpoint();
}

absl::Status TrainLoop::RunStep(int64_t step) {
  StepTimes times;
  const auto start = clock_.Now();
  INGOT_RETURN_IF_ERROR(SaveDueCheckpoint());
  const auto saved = clock_.Now();
  INGOT_ASSIGN_OR_RETURN(const TrainBatch batch, source_.Next(step));
  const auto received = clock_.Now();
  Turn turn(*this);
  INGOT_RETURN_IF_ERROR(turn.Take(step));
  whole_ = false;
  INGOT_ASSIGN_OR_RETURN(StepReport report, trainer_.TrainStep(batch, turn.probe()));
  whole_ = true;
  const auto trained = clock_.Now();
  std::chrono::nanoseconds copied = trained;
  const absl::StatusOr<weights::PublishStats> published = PublishCurrent(&copied);
  turn.Give();
  const auto end = clock_.Now();

  times.checkpoint = Seconds(saved - start);
  times.wait = Seconds(received - saved);
  times.train = Seconds(trained - received);
  times.publish = Seconds(end - trained);
  times.total = Seconds(end - start);
  ReportTimes(times, report.metrics);
  if (published.ok()) ReportPublish(*published, report.metrics);
  if (report.stepped_at.count() > 0) {
    report.metrics["perf/update_weights_snapshot_ms"] = 1e3 * Seconds(copied - report.stepped_at);
  }
  turn.Report(report.metrics);
  ReportFeed(batch.feed, report.metrics);
  const absl::Status reported = observer_ == nullptr ? absl::OkStatus() : observer_->OnStep(report, batch);
  return published.ok() ? reported : published.status();
}

absl::StatusOr<weights::PublishStats> TrainLoop::PublishCurrent(std::chrono::nanoseconds* copied) {
  const base::WorkPart shown(absl::StrCat("publishing version ", trainer_.version()));
  INGOT_ASSIGN_OR_RETURN(auto snapshot, options_.take != nullptr ? options_.take() : trainer_.TakeSnapshot());
  if (copied != nullptr) *copied = clock_.Now();
  return sink_.Publish(std::move(snapshot), options_.retain != nullptr && options_.retain(trainer_.version()));
}

absl::Status TrainLoop::SaveDueCheckpoint() {
  const int64_t version = trainer_.version(), every = trainer_.options().checkpoint_every;
  const bool due = version == End() || (every > 0 && version % every == 0);
  return due ? SaveCheckpoint() : absl::OkStatus();
}

absl::Status TrainLoop::SaveCheckpoint() {
  const int64_t version = trainer_.version();
  if (options_.checkpoint_root.empty() || version == saved_) return absl::OkStatus();
  CheckpointInfo info;
  const auto write = [&]() -> absl::Status {
    INGOT_ASSIGN_OR_RETURN(info, trainer_.SaveCheckpoint(options_.checkpoint_root, options_.extra_files));
    return absl::OkStatus();
  };
  INGOT_RETURN_IF_ERROR(options_.persist ? options_.persist(absl::StrCat("writing checkpoint ", version), write)
                                         : write());
  saved_ = version;
  INGOT_LOG(debug, "checkpoint {}", info.path);
  return base::Annotate(sink_.OnCheckpoint(info), "recording the checkpoint");
}

}  // namespace ingot::trainer
