// The order of a run, with a source, a sink and an observer that record their calls.
#include "trainer/loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "makers.h"
#include "temp_dir.h"
#include "tiny_model.h"

namespace ingot::trainer {
namespace {

using ::testing::ElementsAre;

class Recorder final : public BatchSource, public VersionSink, public StepObserver {
 public:
  explicit Recorder(base::ManualClock& clock) : clock_(clock) {}

  absl::StatusOr<TrainBatch> Next(int64_t step) override {
    if (step == stop_at) return absl::CancelledError("the run was stopped");
    events.push_back(absl::StrCat("batch ", step));
    clock_.Advance(std::chrono::seconds(6));
    TrainBatch batch = RandomBatch(static_cast<uint64_t>(step + 1), 37, step);
    if (step == break_batch_at) batch.groups.clear();
    batch.feed.set_window(12);
    return batch;
  }
  absl::StatusOr<weights::PublishStats> Publish(std::shared_ptr<const weights::Snapshot> snapshot,
                                                bool retain) override {
    if (snapshot->version() == fail_publish_at) return absl::UnavailableError("no engine holds a lease");
    events.push_back(absl::StrCat("publish ", snapshot->version(), retain ? " retained" : ""));
    clock_.Advance(std::chrono::seconds(1));
    weights::PublishStats stats;
    stats.density = 0.25;
    stats.wire_bytes = 1000;
    stats.encode_ms = 11;
    stats.send_ms = 12;
    stats.fetch_ms = 13;
    stats.apply_ms = 14;
    stats.wait_ms = 15;
    stats.pause_ms = 3;
    stats.save_ms = 16;
    stats.version_lag = 2;
    return stats;
  }
  absl::Status OnCheckpoint(const CheckpointInfo& checkpoint) override {
    events.push_back(absl::StrCat("checkpoint ", checkpoint.step));
    clock_.Advance(std::chrono::seconds(3));
    return absl::OkStatus();
  }
  absl::Status OnStep(const StepReport& report, const TrainBatch& batch) override {
    events.push_back(absl::StrCat("step ", report.step));
    EXPECT_EQ(batch.step, report.step);
    if (report.step == fail_step_at) return absl::DataLossError("the record is damaged");
    reports.push_back(report);
    return absl::OkStatus();
  }

  std::vector<std::string> events;
  std::vector<StepReport> reports;
  int64_t stop_at = -1;
  int64_t fail_publish_at = -1;
  int64_t fail_step_at = -1;
  int64_t break_batch_at = -1;

 private:
  base::ManualClock& clock_;
};

struct Scenario {
  explicit Scenario(int64_t checkpoint_every = 2) {
    TrainerOptions options;
    options.total_steps = 3;
    options.checkpoint_every = checkpoint_every;
    options.keep_checkpoints = 10;
    options.threads = 1;
    const auto config = TinyConfig();
    trainer = *Trainer::Create(options, config, model::Parameters::Init(config, 1, at::kFloat), clock);
    loop_options.checkpoint_root = dir.path();
    loop_options.extra_files = {{"tokenizer.json", "{}"}};
  }
  absl::Status Go() { return TrainLoop(loop_options, *trainer, recorder, recorder, &recorder, probe, clock).Run(); }

  TempDir dir;
  base::ManualClock clock;
  Recorder recorder{clock};
  std::unique_ptr<Trainer> trainer;
  LoopOptions loop_options;
  ProbeSource probe;
};

TEST(TrainLoop, WritesACheckpointAfterTheReportOfTheStepItEndsWith) {
  Scenario run;
  const absl::Status status = run.Go();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(run.recorder.events,
              ElementsAre("publish 0", "batch 0", "publish 1", "step 0", "batch 1", "publish 2", "step 1",
                          "checkpoint 2", "batch 2", "publish 3", "step 2", "checkpoint 3"));
  const auto latest = LatestCheckpoint(run.dir.path());
  ASSERT_TRUE(latest.ok()) << latest.status();
  EXPECT_EQ(latest->step, 3);
}

TEST(TrainLoop, ContinuesFromACheckpoint) {
  Scenario run;
  run.recorder.stop_at = 2;
  EXPECT_EQ(run.Go().code(), absl::StatusCode::kCancelled);
  const auto latest = LatestCheckpoint(run.dir.path());
  ASSERT_TRUE(latest.ok()) << latest.status();

  Scenario resumed;
  TrainerOptions options = run.trainer->options();
  resumed.trainer = *Trainer::Resume(options, latest->path);
  ASSERT_TRUE(resumed.Go().ok());
  EXPECT_THAT(resumed.recorder.events, ElementsAre("publish 2", "batch 2", "publish 3", "step 2", "checkpoint 3"));
}

TEST(TrainLoop, EndsBeforeTheTrainersLastStepWithACheckpointThere) {
  Scenario run(0);
  run.loop_options.end = 2;
  ASSERT_TRUE(run.Go().ok());
  EXPECT_THAT(run.recorder.events, ElementsAre("publish 0", "batch 0", "publish 1", "step 0", "batch 1", "publish 2",
                                               "step 1", "checkpoint 2"));
}

TEST(TrainLoop, ARunThatIsCompleteOnlyPublishes) {
  Scenario run;
  ASSERT_TRUE(run.Go().ok());
  run.recorder.events.clear();
  ASSERT_TRUE(run.Go().ok());
  EXPECT_THAT(run.recorder.events, ElementsAre("publish 3"));
}

TEST(TrainLoop, RetainsTheChosenVersions) {
  Scenario run(0);
  run.loop_options.publish_start = false;
  run.loop_options.checkpoint_root.clear();
  run.loop_options.retain = [](int64_t version) { return version % 2 == 0; };
  ASSERT_TRUE(run.Go().ok());
  EXPECT_THAT(run.recorder.events, ElementsAre("batch 0", "publish 1", "step 0", "batch 1", "publish 2 retained",
                                               "step 1", "batch 2", "publish 3", "step 2"));
}

TEST(TrainLoop, MeasuresWhereTheTimeGoes) {
  Scenario run(1);
  ASSERT_TRUE(run.Go().ok());
  const StepMetrics& m = run.recorder.reports[1].metrics;
  // 6 s for the batch, 3 s for the checkpoint, 1 s to publish; training takes none of the manual clock's time.
  EXPECT_DOUBLE_EQ(m.at("trainer/idle_ratio"), 0.6);
  EXPECT_DOUBLE_EQ(m.at("perf/share_rollout"), 0.6);
  EXPECT_DOUBLE_EQ(m.at("perf/share_io"), 0.4);
  EXPECT_DOUBLE_EQ(
      m.at("perf/share_rollout") + m.at("perf/share_data") + m.at("perf/share_training") + m.at("perf/share_io"), 1.0);
  EXPECT_DOUBLE_EQ(m.at("perf/tokens_per_second"), m.at("tree/unmerged_tokens") / 10);
  EXPECT_EQ(m.at("perf/update_weights_density"), 0.25);
  EXPECT_EQ(m.at("perf/update_weights_wire_bytes"), 1000);
  EXPECT_EQ(m.at("perf/update_weights_pause_ms"), 3);
  EXPECT_EQ(m.at("perf/update_weights_snapshot_ms"), 0) << "the manual clock stands still meanwhile";
  EXPECT_EQ(m.at("perf/update_weights_save_ms"), 16);
  EXPECT_EQ(m.at("perf/update_weights_encode_ms"), 11);
  EXPECT_EQ(m.at("perf/update_weights_send_ms"), 12);
  EXPECT_EQ(m.at("perf/update_weights_fetch_ms"), 13);
  EXPECT_EQ(m.at("perf/update_weights_apply_ms"), 14);
  EXPECT_EQ(m.at("perf/update_weights_wait_ms"), 15);
  EXPECT_EQ(m.at("perf/update_weights_version_lag"), 2);
  EXPECT_EQ(m.at("scheduler/window"), 12);
}

TEST(TrainLoop, TakesASharedDeviceFromTheProbeUntilTheVersionIsLive) {
  Scenario run(0);
  run.loop_options.take_device = [&run] {
    run.recorder.events.push_back("take");
    run.clock.Advance(std::chrono::milliseconds(20));
    return absl::OkStatus();
  };
  run.loop_options.give_device = [&run] {
    run.recorder.events.push_back("give");
    run.clock.Advance(std::chrono::milliseconds(30));
  };
  run.probe = [&run](int64_t version, int64_t) -> absl::StatusOr<std::vector<tree::CallPath>> {
    run.recorder.events.push_back(absl::StrCat("probe ", version));
    return std::vector<tree::CallPath>();
  };
  run.recorder.stop_at = 1;
  EXPECT_EQ(run.Go().code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(run.recorder.events,
              ElementsAre("publish 0", "batch 0", "probe 0", "take", "publish 1", "give", "step 0", "checkpoint 1"));
  const StepMetrics& metrics = run.recorder.reports[0].metrics;
  EXPECT_DOUBLE_EQ(metrics.at("perf/switch_to_train_ms"), 20);
  EXPECT_DOUBLE_EQ(metrics.at("perf/switch_to_rollout_ms"), 30);
}

TEST(TrainLoop, GivesASharedDeviceBackAfterEveryFailure) {
  for (const bool parks : {false, true}) {
    Scenario run(0);
    run.loop_options.take_device = [&run, parks] {
      run.recorder.events.push_back("take");
      return parks ? absl::OkStatus() : absl::DeadlineExceededError("the engine's running step did not end");
    };
    run.loop_options.give_device = [&run] { run.recorder.events.push_back("give"); };
    run.recorder.break_batch_at = 0;
    const absl::Status status = run.Go();
    EXPECT_EQ(status.code(), parks ? absl::StatusCode::kInvalidArgument : absl::StatusCode::kDeadlineExceeded)
        << status;
    EXPECT_THAT(run.recorder.events, ElementsAre("publish 0", "batch 0", "take", "give"));
  }
}

TEST(TrainLoop, ErrorsNameTheStep) {
  Scenario run;
  run.recorder.fail_publish_at = 3;
  const absl::Status status = run.Go();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), ::testing::StartsWith("step 2: no engine"));
}

TEST(TrainLoop, SavesTheTrainedVersionBeforeItEndsWithAnError) {
  Scenario run(/*checkpoint_every=*/0);
  run.recorder.fail_publish_at = 2;
  EXPECT_EQ(run.Go().code(), absl::StatusCode::kUnavailable);
  // The step is reported, without the metrics of publishing.
  EXPECT_THAT(run.recorder.events,
              ElementsAre("publish 0", "batch 0", "publish 1", "step 0", "batch 1", "step 1", "checkpoint 2"));
  EXPECT_EQ(run.recorder.reports[1].metrics.count("perf/update_weights_density"), 0u);

  Scenario unreported(0);
  unreported.recorder.fail_step_at = 1;
  EXPECT_EQ(unreported.Go().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(unreported.recorder.events.back(), "checkpoint 2");
}

TEST(TrainLoop, ARunThatIsStoppedSavesItsNewestVersion) {
  Scenario run(0);
  run.recorder.stop_at = 2;
  EXPECT_EQ(run.Go().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(run.recorder.events.back(), "checkpoint 2");
  const auto latest = LatestCheckpoint(run.dir.path());
  ASSERT_TRUE(latest.ok()) << latest.status();
  EXPECT_EQ(latest->step, 2);

  Scenario at_once(0);  // no new version
  at_once.recorder.stop_at = 0;
  EXPECT_EQ(at_once.Go().code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(at_once.recorder.events, ElementsAre("publish 0"));
}

TEST(TrainLoop, AFailedStepIsNotSaved) {
  Scenario run(0);
  run.recorder.break_batch_at = 2;
  EXPECT_FALSE(run.Go().ok());
  EXPECT_EQ(run.recorder.events.back(), "batch 2");
}

TEST(TrainLoop, PersistRepeatsAFailedCheckpoint) {
  Scenario run(0);
  const std::string root = run.loop_options.checkpoint_root = run.dir.path() + "/full";
  std::ofstream(root) << "a file, for now";
  std::vector<std::string> asked;
  run.loop_options.persist = [&](const std::string& what, const std::function<absl::Status()>& write) {
    asked.push_back(what);
    EXPECT_FALSE(write().ok());
    std::filesystem::remove(root);
    return write();
  };
  const absl::Status status = run.Go();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(asked, ElementsAre("writing checkpoint 3"));
  EXPECT_EQ(run.recorder.events.back(), "checkpoint 3");
}

}  // namespace
}  // namespace ingot::trainer
