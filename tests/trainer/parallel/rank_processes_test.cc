// Ranks as processes: they train like threads, and notice the death of one of them.
#include <ATen/ATen.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>

#include "../makers.h"
#include "../temp_dir.h"
#include "../tiny_model.h"
#include "cpu_time.h"
#include "rank_group.h"
#include "trainer/trainer.h"
#include "weights/stores/directory_store.h"
#include "weights/stores/version_layout.h"

extern char** environ;

namespace ingot::trainer {
namespace {

using Clock = std::chrono::steady_clock;

// The processes of one group, killed with the object.
class RankProcesses {
 public:
  RankProcesses(int size, int deadline_ms, int64_t steps, const std::string& folder, const char* sharding = nullptr) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    const std::string port = std::to_string(FreePort());
    for (int rank = 0; rank < size; ++rank) {
      std::vector<std::string> words = {INGOT_RANK_MAIN,
                                        std::to_string(rank),
                                        std::to_string(size),
                                        port,
                                        std::to_string(deadline_ms),
                                        std::to_string(steps),
                                        folder};
      if (sharding != nullptr) words.insert(words.end(), {sharding, "6"});
      std::vector<char*> argv;
      for (std::string& word : words) argv.push_back(word.data());
      argv.push_back(nullptr);
      posix_spawn_file_actions_t actions;
      posix_spawn_file_actions_init(&actions);
      posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
      pid_t pid = -1;
      EXPECT_EQ(posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ), 0) << argv[0];
      posix_spawn_file_actions_destroy(&actions);
      pids_.push_back(pid);
    }
    close(ends[1]);
    lines_ = fdopen(ends[0], "r");
  }
  ~RankProcesses() {
    for (const pid_t pid : pids_) {
      if (pid <= 0) continue;
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
    std::fclose(lines_);
  }

  // Blocks until rank 0 has trained `step`; false = it ended before.
  bool Reaches(int64_t step) {
    char line[64];
    const std::string wanted = absl::StrCat("step ", step, "\n");
    while (std::fgets(line, sizeof(line), lines_) != nullptr) {
      if (line == wanted) return true;
    }
    return false;
  }

  struct Held {
    long long bytes = 0, predicted = 0;
    long long started = 0, to_start = 0;
  };
  // Blocks until all have ended. Returns the memory that each rank printed, by rank.
  std::map<int, Held> HeldAtTheEnd() {
    std::map<int, Held> all;
    char line[128];
    while (std::fgets(line, sizeof(line), lines_) != nullptr) {
      int rank = 0;
      Held held;
      if (std::sscanf(line, "rank %d started %lld of %lld held %lld of %lld", &rank, &held.started, &held.to_start,
                      &held.bytes, &held.predicted) == 5) {
        all[rank] = held;
      }
    }
    return all;
  }

  void Signal(int rank, int signal) { kill(pids_[static_cast<size_t>(rank)], signal); }

  // Blocks until the process ends; returns its exit code, or minus the signal.
  int ExitOf(int rank) {
    int status = 0;
    pid_t& pid = pids_[static_cast<size_t>(rank)];
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    pid = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  std::vector<pid_t> pids_;
  FILE* lines_ = nullptr;
};

TEST(RankProcesses, TrainLikeThreadsOfOneProcess) {
  constexpr int64_t kSteps = 3;
  TempDir folder, other;
  RankProcesses processes(3, 30000, kSteps, folder.path());
  EXPECT_TRUE(processes.Reaches(kSteps - 1));
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(processes.ExitOf(rank), 0) << rank;
  // The same training in one process, with the options of rank_main.cc.
  OnRanks(3, [&](Ranks& ranks) {
    TrainerOptions options;
    options.threads = 1;
    options.micro_batch_tokens = 24;
    options.total_steps = kSteps;
    const auto config = TinyConfig();
    auto trainer =
        *Trainer::Create(options, config, TinyParameters(config, 2, at::kFloat), base::Clock::Real(), &ranks);
    if (!ranks.leads()) {
      EXPECT_TRUE(trainer->Follow().ok());
      return;
    }
    for (int64_t step = 0; step < kSteps; ++step) {
      ASSERT_TRUE(trainer->TrainStep(RandomBatch(static_cast<uint64_t>(100 + step), 37, step)).ok());
    }
    EXPECT_TRUE(trainer->Dismiss().ok());
    const auto read = ReadCheckpoint(folder.path() + "/" + CheckpointName(kSteps));
    ASSERT_TRUE(read.ok()) << read.status();
    for (const auto& [name, tensor] : trainer->parameters().tensors()) {
      EXPECT_TRUE(at::equal(tensor, read->parameters.at(name))) << name;
    }
  });
}

// A model of 100 MB on two ranks. The other rank's parameters make the difference.
TEST(RankProcesses, HoldLessIfParametersAreDividedByLayer) {
  TempDir folder, other;
  RankProcesses whole_ranks(2, 60000, 2, folder.path(), "optimizer");
  std::map<int, RankProcesses::Held> whole = whole_ranks.HeldAtTheEnd();
  RankProcesses divided_ranks(2, 60000, 2, other.path(), "layers");
  std::map<int, RankProcesses::Held> divided = divided_ranks.HeldAtTheEnd();
  ASSERT_EQ(whole.size(), 2u);
  ASSERT_EQ(divided.size(), 2u);
  for (const int rank : {0, 1}) {
    const long long before = whole[rank].bytes, predicted_before = whole[rank].predicted;
    const long long after = divided[rank].bytes, predicted_after = divided[rank].predicted;
    std::printf("rank %d held %lld MB (predicted %lld), by layer %lld MB (predicted %lld)\n", rank, before >> 20,
                predicted_before >> 20, after >> 20, predicted_after >> 20);
    if (rank == 0) continue;      // holds the last version too, for publishing
    if (kSlowdown > 1) continue;  // a sanitizer needs memory of its own
    // The prediction may be too large, never too small.
    for (const RankProcesses::Held& held : {whole[rank], divided[rank]}) {
      EXPECT_LE(static_cast<double>(held.bytes), 1.05 * static_cast<double>(held.predicted));
      EXPECT_GE(static_cast<double>(held.bytes), 0.6 * static_cast<double>(held.predicted));
    }
    EXPECT_LT(after, before - (predicted_before - predicted_after) / 2);
  }
}

// A trainer holds its parameters once, whether it was given them or read them from a checkpoint.
TEST(RankProcesses, HoldWeightsAndMomentsOnceWhenTheyStart) {
  if (kSlowdown > 1) GTEST_SKIP() << "a sanitizer keeps memory of its own";
  for (const char* sharding : {"optimizer", "layers"}) {
    TempDir folder;
    for (const int64_t steps : {1, 2}) {  // the second time from the checkpoint of the first
      RankProcesses ranks(2, 60000, steps, folder.path(), sharding);
      const std::map<int, RankProcesses::Held> all = ranks.HeldAtTheEnd();
      ASSERT_EQ(all.size(), 2u);
      for (const auto& [rank, held] : all) {
        std::printf("%s, step %d, rank %d: %lld MB of %lld MB\n", sharding, static_cast<int>(steps), rank,
                    held.started >> 20, held.to_start >> 20);
        EXPECT_LE(static_cast<double>(held.started), 1.1 * static_cast<double>(held.to_start));
      }
    }
  }
}

// kill -9 is noticed at once, whatever the deadline.
TEST(RankProcesses, NoticeAKilledRank) {
  for (const auto& [size, victim] : {std::pair(3, 2), std::pair(2, 0)}) {
    TempDir folder;
    RankProcesses processes(size, /*deadline_ms=*/600000, /*steps=*/1000000, folder.path());
    ASSERT_TRUE(processes.Reaches(2));
    processes.Signal(victim, SIGKILL);
    for (int rank = 0; rank < size; ++rank) EXPECT_EQ(processes.ExitOf(rank), rank == victim ? -SIGKILL : 75) << rank;
  }
}

// A rank dies when its shard of a version is in the store, and the pointer to the version is not moved yet.
TEST(RankProcesses, AVersionIsNotLiveUntilAllShardsAreThere) {
  for (const int victim : {0, 2}) {
    TempDir folder;
    const std::string path = folder.path() + "/store";
    setenv("INGOT_RANK_STORE", path.c_str(), 1);
    setenv("INGOT_RANK_DIES", absl::StrCat(victim, " 2").c_str(), 1);
    {
      RankProcesses processes(3, /*deadline_ms=*/600000, /*steps=*/4, folder.path());
      for (int rank = 0; rank < 3; ++rank) {
        EXPECT_EQ(processes.ExitOf(rank), rank == victim ? -SIGKILL : 75) << rank;
      }
    }
    unsetenv("INGOT_RANK_DIES");
    const auto store = *weights::OpenDirectoryStore(path);
    const auto live = [&] {
      return *weights::ParseLive(store->Get(weights::LiveKey("run"), weights::kMaxPointerBytes)->bytes, "run");
    };
    const auto newest = [&] {
      const v1::VersionRoute route = live().newest();
      return weights::FromName(route.steps(route.steps_size() - 1).name());
    };
    EXPECT_EQ(newest().version, 1) << "version 2 has shards, and no manifest";
    const auto second = *store->List("run/versions/0000000002-");
    EXPECT_TRUE(std::any_of(second.begin(), second.end(),
                            [&](const std::string& key) { return key.ends_with(absl::StrCat("/shard-", victim)); }));
    EXPECT_TRUE(std::none_of(second.begin(), second.end(), [](const auto& key) { return key.ends_with("/manifest"); }));
    int64_t fetched = 0;
    EXPECT_TRUE(weights::LoadVersion(*store, "run", newest(), weights::VersionKind::kDelta, {}, &fetched).ok());
    // Started again, the ranks go on: from their last checkpoint, which is the beginning here.
    RankProcesses again(3, /*deadline_ms=*/600000, /*steps=*/4, folder.path());
    for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(again.ExitOf(rank), 0) << rank;
    unsetenv("INGOT_RANK_STORE");
    ASSERT_EQ(newest().version, 4);
    std::shared_ptr<const weights::Snapshot> version;
    const v1::VersionRoute route = live().newest();
    for (int i = 0; i < route.steps_size(); ++i) {
      const auto delta =
          weights::LoadVersion(*store, "run", weights::FromName(route.steps(i).name()),
                               i == 0 ? weights::VersionKind::kAnchor : weights::VersionKind::kDelta, {}, &fetched);
      ASSERT_TRUE(delta.ok()) << delta.status();
      const auto applied = weights::Apply(version, *delta);
      ASSERT_TRUE(applied.ok()) << applied.status();
      version = *applied;
    }
    const auto read = ReadCheckpoint(folder.path() + "/" + CheckpointName(4));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->weights_checksum, version->checksum());
  }
}

// A process that stops without ending is noticed by its silence.
TEST(RankProcesses, NoticeAStoppedRank) {
  for (const int victim : {0, 1}) {
    TempDir folder;
    RankProcesses processes(2, /*deadline_ms=*/2500, /*steps=*/1000000, folder.path());
    ASSERT_TRUE(processes.Reaches(2));
    const auto stopped = Clock::now();
    processes.Signal(victim, SIGSTOP);
    EXPECT_EQ(processes.ExitOf(1 - victim), 75);
    EXPECT_GE(Clock::now() - stopped, std::chrono::milliseconds(500));
    processes.Signal(victim, SIGKILL);
    EXPECT_EQ(processes.ExitOf(victim), -SIGKILL);
  }
}

}  // namespace
}  // namespace ingot::trainer
