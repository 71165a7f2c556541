// Roles die at each step between them, alone and together, with real objects: pool, scheduler and gateway. Whatever was
// acknowledged stands, and no finished episode is run again.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/rng.h"
#include "datapool/make_pool.h"
#include "gateway/fakes.h"
#include "gateway/gateway.h"
#include "scheduler/scheduler.h"

namespace ingot::app {
namespace {

// Thousands of restarts and refusals would otherwise each log a line.
const bool kQuiet = (spdlog::set_level(spdlog::level::off), true);

enum Role { kPool, kScheduler, kGateway, kAgents };

// Kills roles at a step between two roles: before a request arrives, or before its answer does. Thread safe.
class Reaper {
 public:
  // The step-th step from now on kills these roles. `at_once`: starts them again before the step goes on; it is left out
  // where one of them takes part in the step.
  void KillAt(int64_t step, std::set<Role> roles, std::function<void()> at_once = nullptr) {
    base::MutexLock lock(mu_);
    at_ = steps_ + step;
    doomed_ = std::move(roles);
    at_once_ = std::move(at_once);
  }
  int64_t steps() const {
    base::MutexLock lock(mu_);
    return steps_;
  }
  // The dead roles, which are alive from now on.
  std::set<Role> TakeDead() {
    base::MutexLock lock(mu_);
    return std::exchange(dead_, {});
  }
  bool AnyDead() const {
    base::MutexLock lock(mu_);
    return !dead_.empty();
  }

  // A request of one role to another.
  template <typename Request>
  auto Pass(Role from, Role to, Request request) -> decltype(request()) {
    if (!Step(from, to)) return absl::UnavailableError("the request was lost");
    auto answer = request();
    if (!Step(from, to)) return absl::UnavailableError("the answer was lost");
    return answer;
  }

 private:
  bool Step(Role from, Role to) {
    std::function<void()> at_once;
    {
      base::MutexLock lock(mu_);
      if (++steps_ == at_) {
        const bool takes_part = doomed_.contains(from) || doomed_.contains(to);
        if (at_once_ != nullptr && !takes_part) at_once = at_once_;
        if (at_once == nullptr) dead_.insert(doomed_.begin(), doomed_.end());
      }
    }
    if (at_once != nullptr) at_once();
    base::MutexLock lock(mu_);
    return !dead_.contains(from) && !dead_.contains(to);
  }

  mutable base::Mutex mu_;
  int64_t steps_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t at_ ABSL_GUARDED_BY(mu_) = -1;
  std::set<Role> doomed_ ABSL_GUARDED_BY(mu_), dead_ ABSL_GUARDED_BY(mu_);
  std::function<void()> at_once_ ABSL_GUARDED_BY(mu_);
};

// The pool as a role reaches it.
class PoolOf final : public datapool::Client {
 public:
  PoolOf(Role role, Reaper& reaper, datapool::Client& pool) : role_(role), pool_(pool), reaper_(reaper) {}
  absl::Status StoreEpisode(const v1::StoreEpisodeRequest& r) override {
    return reaper_.Pass(role_, kPool, [&] { return pool_.StoreEpisode(r); });
  }
  absl::Status AppendCall(const v1::AppendCallRequest& r) override {
    return reaper_.Pass(role_, kPool, [&] { return pool_.AppendCall(r); });
  }
  absl::Status StoreReward(const v1::StoreRewardRequest& r) override {
    return reaper_.Pass(role_, kPool, [&] { return pool_.StoreReward(r); });
  }
  absl::Status StoreEnd(const v1::StoreEndRequest& r) override {
    return reaper_.Pass(role_, kPool, [&] { return pool_.StoreEnd(r); });
  }
  absl::StatusOr<v1::EpisodeTree> TakeOverEpisode(const v1::TakeOverEpisodeRequest& r) override {
    return reaper_.Pass(role_, kPool, [&] { return pool_.TakeOverEpisode(r); });
  }
  absl::Status StoreGrades(const v1::StoreGradesRequest& r) override {
    return reaper_.Pass(role_, kPool, [&] { return pool_.StoreGrades(r); });
  }
  absl::StatusOr<v1::EpisodeTree> GetEpisode(const v1::GetEpisodeRequest& r) override { return pool_.GetEpisode(r); }
  absl::StatusOr<v1::Group> GetGroup(const v1::GetGroupRequest& r) override { return pool_.GetGroup(r); }
  absl::StatusOr<v1::ListEpisodesResponse> ListEpisodes(const v1::ListEpisodesRequest& r) override {
    return pool_.ListEpisodes(r);
  }
  absl::StatusOr<int64_t> AppendJournal(const v1::AppendJournalRequest& r) override {
    return reaper_.Pass(role_, kPool, [&] { return pool_.AppendJournal(r); });
  }
  absl::StatusOr<v1::ReadJournalResponse> ReadJournal(const v1::ReadJournalRequest& r) override {
    return pool_.ReadJournal(r);
  }
  absl::StatusOr<v1::TrimResponse> Trim(const v1::TrimRequest& r) override { return pool_.Trim(r); }
  absl::StatusOr<v1::PoolStatusResponse> Status() override { return pool_.Status(); }

 private:
  const Role role_;
  datapool::Client& pool_;
  Reaper& reaper_;
};

// A run with agents that open episodes, call, reward and end them, and repeat requests that fail.
class CrashingRun {
 public:
  CrashingRun() {
    for (int i = 0; i < 3; ++i) {
      tasks_.emplace_back().set_task_id("t" + std::to_string(i));
      tasks_.back().set_payload_json("{}");
    }
    StartScheduler(0);
    StartGateway();
    EXPECT_TRUE(TheScheduler()->MarkVersionLive(0).ok());
  }

  Reaper& reaper() { return reaper_; }
  void RestartScheduler() { StartScheduler(std::nullopt); }

  // Some turns of the agents.
  void ActSome(size_t turns) {
    for (size_t turn = 0; turn < turns && !HasBatches(); ++turn) {
      if (reaper_.AnyDead()) Restart(reaper_.TakeDead());
      if (agents_.size() < 3) agents_.emplace_back(++names_);
      Act(turn % agents_.size());
      if (turn % 10 == 9) gateway_->Tick();  // tries failed ends again
    }
  }

  // Success: the run's batches are there, and all episodes are as the agents were told.
  ::testing::AssertionResult Finishes() {
    ActSome(5000);
    if (reaper_.AnyDead()) Restart(reaper_.TakeDead());
    if (HasBatches()) return Check();
    return ::testing::AssertionFailure() << "the run does not move: " << TheScheduler()->NextBatch(Wanted(0)).status();
  }

 private:
  using Sample = std::tuple<int64_t, int32_t>;

  enum class Phase { kOpening, kCalling, kRewarding, kEnding };
  struct Agent {
    explicit Agent(int number = 0) : name(number) {}
    int name;
    Phase phase = Phase::kOpening;
    v1::EpisodeOpenResponse episode;
  };

  static v1::NextBatchRequest Wanted(int64_t step) {
    v1::NextBatchRequest request;
    request.set_step(step);
    return request;
  }
  static double RewardOf(const Agent& agent) { return agent.name; }  // all differ

  bool HasBatches() {
    for (int64_t step = 0; step < options_.total_steps; ++step) {
      if (!TheScheduler()->NextBatch(Wanted(step)).ok()) return false;
    }
    return true;
  }
  std::shared_ptr<scheduler::Scheduler> TheScheduler() {
    base::MutexLock lock(mu_);
    return scheduler_;
  }
  void StartScheduler(std::optional<int64_t> resume_step) {
    std::shared_ptr<scheduler::Scheduler> started =
        scheduler::Scheduler::Recover(options_, tasks_, schedulers_pool_, base::Clock::Real(), resume_step).value();
    base::MutexLock lock(mu_);
    scheduler_ = std::move(started);
  }
  void StartGateway() {
    gateway_.reset();
    gateway_ = gateway::Gateway::Create({}, {.engine = engine_,
                                             .pool = &gateways_pool_,
                                             .admission = &admission_,
                                             .tokenizer = gateway::TestTokenizer(),
                                             .format = gateway::TestFormat()})
                   .value();
    EXPECT_TRUE(gateway_->Recover().ok());
    EXPECT_TRUE(TheScheduler()->Reconcile({}).ok());
  }

  // Starts the dead roles again, as supervisors do: all of them = a resume of the run from checkpoint 0.
  void Restart(const std::set<Role>& dead) {
    const bool all = dead.contains(kScheduler) && dead.contains(kGateway) && dead.contains(kAgents);
    if (dead.contains(kAgents)) {
      agents_.clear();
      ++incarnation_;
    }
    if (dead.contains(kGateway)) gateway_.reset();
    if (dead.contains(kScheduler)) StartScheduler(all ? std::optional<int64_t>(0) : std::nullopt);
    if (dead.contains(kGateway)) StartGateway();
    if (all) {
      EXPECT_TRUE(TheScheduler()->MarkVersionLive(0).ok());
    }
  }

  void Act(size_t index) {
    Agent& agent = agents_[index];
    const absl::Status status = reaper_.Pass(kAgents, kGateway, [&] { return Request(agent); });
    const bool repeat = absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsAborted(status) ||
                        absl::IsResourceExhausted(status);
    if (status.ok()) {
      Acknowledge(agent);
      if (agent.phase == Phase::kEnding) {
        agents_.erase(agents_.begin() + static_cast<std::ptrdiff_t>(index));
      } else {
        agent.phase = static_cast<Phase>(static_cast<int>(agent.phase) + 1);
      }
    } else if (!repeat) {
      agents_.erase(agents_.begin() + static_cast<std::ptrdiff_t>(index));  // its episode is over, or the run is
    }
  }

  void Acknowledge(const Agent& agent) {
    if (agent.phase == Phase::kRewarding) rewarded_[agent.episode.episode_id()] = RewardOf(agent);
    if (agent.phase == Phase::kEnding) finished_.insert(agent.episode.episode_id());
  }

  absl::Status Request(Agent& agent) {
    const auto address = [&](auto& request) {
      request.set_episode_id(agent.episode.episode_id());
      request.set_api_key(agent.episode.api_key());
    };
    switch (agent.phase) {
      case Phase::kOpening: {
        v1::EpisodeOpenRequest request;
        request.set_runner("agents");
        request.set_incarnation(std::to_string(incarnation_));
        request.set_idempotency_key("nobody guesses " + std::to_string(agent.name));
        INGOT_ASSIGN_OR_RETURN(agent.episode, gateway_->OpenEpisode(request));
        return absl::OkStatus();
      }
      case Phase::kCalling:
        return Chat(agent.episode.api_key());
      case Phase::kRewarding: {
        v1::EpisodeRewardRequest request;
        address(request);
        request.set_reward(RewardOf(agent));
        return gateway_->RewardEpisode(request);
      }
      case Phase::kEnding:
        break;
    }
    v1::EpisodeEndRequest request;
    address(request);
    request.set_state(v1::EPISODE_FINISHED);
    return gateway_->EndEpisode(request).status();
  }

  absl::Status Chat(const std::string& key) {
    auto flag = std::make_shared<gateway::Flag>();
    const auto answer = gateway_->StartAnswer(
        {.api_key = key, .episode = {}}, gateway::ChatDialect(),
        {.body = base::PrintJson(gateway::Body({gateway::Msg("user", "hi")})), .headers = {}}, [flag] { flag->Set(); });
    gateway::Answer::Output out;
    while (!(out = answer->TakeOutput()).done) flag->WaitAndClear();
    return gateway::HttpStatusOf(out.status) >= 500 ? absl::UnavailableError(out.status.message()) : out.status;
  }

  ::testing::AssertionResult Check() {
    // A last opening ends the episodes of dead runners. Then nothing is open any more.
    agents_.clear();
    ++incarnation_;
    Agent last(++names_);
    Request(last).IgnoreError();
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (gateway_->Status().open_episodes() > 0) {
      if (std::chrono::steady_clock::now() > deadline) {
        return ::testing::AssertionFailure() << gateway_->Status().open_episodes() << " episodes stay open";
      }
      gateway_->Tick();
      std::this_thread::yield();
    }
    if (TheScheduler()->Status()->stats().running_episodes() != 0) {
      return ::testing::AssertionFailure() << "samples seem to run";
    }
    std::map<Sample, std::vector<v1::Episode>> attempts;
    for (datapool::EpisodePages pages(*pool_, v1::PURPOSE_TRAIN, 0, -1); !pages.done();) {
      const v1::ListEpisodesResponse page = pages.Next().value();
      for (const v1::Episode& episode : page.episodes()) {
        attempts[{episode.ref().group_id(), episode.ref().sample_index()}].push_back(episode);
        const auto reported = rewarded_.find(episode.episode_id());
        if (reported != rewarded_.end() && (!episode.has_reward() || episode.reward() != reported->second)) {
          return ::testing::AssertionFailure()
                 << "the agent was told that its reward is stored: " << reported->second << "\n"
                 << episode.ShortDebugString();
        }
        if (finished_.contains(episode.episode_id()) && episode.state() != v1::EPISODE_FINISHED) {
          return ::testing::AssertionFailure() << "it was acknowledged as finished: " << episode.ShortDebugString();
        }
      }
    }
    for (const auto& [sample, episodes] : attempts) {
      for (size_t i = 0; i + 1 < episodes.size(); ++i) {
        if (episodes[i].state() == v1::EPISODE_FINISHED) {
          return ::testing::AssertionFailure()
                 << "a finished episode was run again: " << episodes[i].ShortDebugString() << "\n"
                 << episodes[i + 1].ShortDebugString();
        }
      }
    }
    for (int64_t step = 0; step < options_.total_steps; ++step) {
      const v1::NextBatchResponse batch = TheScheduler()->NextBatch(Wanted(step)).value();
      for (const int64_t group : batch.batch().group_ids()) {
        for (int32_t sample = 0; sample < 2; ++sample) {
          if (attempts[{group, sample}].back().state() != v1::EPISODE_FINISHED) {
            return ::testing::AssertionFailure() << "group " << group << " is trained and not finished";
          }
        }
      }
    }
    return ::testing::AssertionSuccess();
  }

  // The scheduler as the gateway reaches it.
  class Admission final : public gateway::Admission {
   public:
    explicit Admission(CrashingRun& run) : run_(run) {}
    absl::StatusOr<v1::Ticket> Admit(const v1::AdmitRequest& r) override {
      return run_.reaper_.Pass(kGateway, kScheduler, [&] { return run_.TheScheduler()->Admit(r); });
    }
    absl::Status ReportEpisodeEnd(const v1::ReportEpisodeEndRequest& r) override {
      return run_.reaper_.Pass(kGateway, kScheduler, [&] { return run_.TheScheduler()->ReportEpisodeEnd(r); });
    }

   private:
    CrashingRun& run_;
  };

  const scheduler::SchedulerOptions options_{.group_size = 2,
                                             .groups_per_step = 1,
                                             .max_staleness = 1,
                                             .window_fraction = 1,
                                             .total_steps = 1,
                                             .max_attempts = 100};
  datapool::testing::TempDir dir_;
  Reaper reaper_;
  std::vector<v1::Task> tasks_;
  const std::unique_ptr<datapool::Client> pool_ =
      datapool::OpenPool(datapool::testing::QuickOptions(dir_.path())).value();
  PoolOf schedulers_pool_{kScheduler, reaper_, *pool_}, gateways_pool_{kGateway, reaper_, *pool_};
  base::Mutex mu_;
  std::shared_ptr<scheduler::Scheduler> scheduler_ ABSL_GUARDED_BY(mu_);
  Admission admission_{*this};
  std::shared_ptr<gateway::ScriptedEngine> engine_ = std::make_shared<gateway::ScriptedEngine>([](const auto&) {
    gateway::Script script;
    script.text = "ok";
    return script;
  });
  std::unique_ptr<gateway::Gateway> gateway_;
  std::vector<Agent> agents_;
  int incarnation_ = 0;                     // of their runner
  int names_ = 0;                           // of agents
  std::map<std::string, double> rewarded_;  // acknowledged, by episode
  std::set<std::string> finished_;          // acknowledged ends
};

int64_t StepsOfARun() {
  CrashingRun run;
  EXPECT_TRUE(run.Finishes());
  return run.reaper().steps();
}

TEST(Crash, AtEachStepOfTheRolesAloneAndTogether) {
  const int64_t steps = StepsOfARun();
  ASSERT_GT(steps, 40);
  const std::vector<std::set<Role>> sets = {{kScheduler},
                                            {kGateway},
                                            {kAgents},
                                            {kScheduler, kGateway},
                                            {kGateway, kAgents},
                                            {kScheduler, kAgents},
                                            {kScheduler, kGateway, kAgents}};
  for (const std::set<Role>& roles : sets) {
    for (int64_t step = 1; step <= steps; ++step) {
      CrashingRun run;
      run.reaper().KillAt(step, roles);
      ASSERT_TRUE(run.Finishes()) << "killed at step " << step << " of " << steps << ": scheduler "
                                  << roles.contains(kScheduler) << ", gateway " << roles.contains(kGateway)
                                  << ", agents " << roles.contains(kAgents);
    }
  }
}

// The new scheduler reads the pool between a step of the gateway and its effect.
TEST(Crash, OfTheSchedulerBetweenTwoStepsOfTheGateway) {
  const int64_t steps = StepsOfARun();
  for (int64_t step = 1; step <= steps; ++step) {
    CrashingRun run;
    run.reaper().KillAt(step, {kScheduler}, [&run] { run.RestartScheduler(); });
    ASSERT_TRUE(run.Finishes()) << "killed at step " << step << " of " << steps;
  }
}

TEST(Crash, SeveralTimes) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    CrashingRun run;
    uint64_t draws = 0;
    const auto draw = [&](int64_t below) {
      return static_cast<int64_t>(base::UniformAt(seed, draws++) * static_cast<double>(below));
    };
    for (int crash = 0; crash < 4; ++crash) {
      std::set<Role> roles;
      for (const Role role : {kScheduler, kGateway, kAgents}) {
        if (draw(2) == 0) roles.insert(role);
      }
      run.reaper().KillAt(1 + draw(40), roles);
      if (draw(2) == 0) run.ActSome(30);
    }
    ASSERT_TRUE(run.Finishes()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace ingot::app
