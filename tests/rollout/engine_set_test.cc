// Several engines as one client: the choice of a request's engine, and of the next one after a refusal.
#include "rollout/routing/engine_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/mutex.h"
#include "rollout/engine/chunk_gate.h"

namespace ingot::rollout {
namespace {

using std::chrono::seconds;

v1::GenerateChunk Last() {
  v1::GenerateChunk chunk;
  chunk.set_finish(v1::FINISH_STOP);
  return chunk;
}

// An engine that holds its requests, or refuses them at once.
class FakeEngine final : public Client {
 public:
  std::unique_ptr<Request> Generate(v1::GenerateRequest request, OnChunk on_chunk) override {
    auto gate = std::make_shared<ChunkGate>(std::move(on_chunk));
    auto handle = std::make_unique<Handle>(gate, open);
    absl::Status why;
    {
      base::MutexLock lock(mu_);
      ++asked;
      prompts.emplace_back(request.prompt_ids().begin(), request.prompt_ids().end());
      why = rejection;
      if (why.ok()) held_.push_back(gate);
    }
    if (!why.ok()) gate->Deliver(why);
    return handle;
  }
  absl::StatusOr<v1::EngineStatusResponse> Status() override {
    if (!rejection.ok()) return rejection;
    v1::EngineStatusResponse status;
    status.set_version(version);
    status.add_held_versions(version);
    status.add_held_loaded_unix_ns(version * 1000);
    status.set_running(1);
    if (first_token.version() > 0) *status.mutable_first_token() = first_token;
    if (prefill.requests() > 0) *status.mutable_prefill() = prefill;
    return status;
  }
  void Deliver(absl::StatusOr<v1::GenerateChunk> chunk) {
    std::vector<std::shared_ptr<ChunkGate>> held;
    {
      base::MutexLock lock(mu_);
      held = held_;
      if (!chunk.ok() || chunk->finish() != v1::FINISH_UNSPECIFIED) held_.clear();
    }
    for (const auto& gate : held) gate->Deliver(chunk);
  }

  absl::Status rejection;
  int64_t version = 5;
  v1::PrefillProgress prefill;  // requests == 0: none
  v1::SwapTimes first_token;    // without a version: none yet
  int asked = 0;
  std::vector<std::vector<int32_t>> prompts;  // of the requests, in order
  std::atomic<int> open{0};                   // live handles

 private:
  struct Handle final : Request {
    Handle(std::shared_ptr<ChunkGate> of, std::atomic<int>& counter) : gate(std::move(of)), open(counter) { ++open; }
    ~Handle() override {
      gate->Close();
      --open;
    }
    const std::shared_ptr<ChunkGate> gate;
    std::atomic<int>& open;
  };
  base::Mutex mu_;
  std::vector<std::shared_ptr<ChunkGate>> held_ ABSL_GUARDED_BY(mu_);
};

class EngineSetTest : public testing::Test {
 protected:
  // The chunks and the error that a request received.
  struct Heard {
    int chunks = 0;
    absl::Status error;
  };
  std::unique_ptr<Client::Request> Ask(Heard& heard) {
    return set_->Generate({}, [&heard](absl::StatusOr<v1::GenerateChunk> chunk) {
      if (chunk.ok()) {
        ++heard.chunks;
      } else {
        heard.error = chunk.status();
      }
    });
  }
  int asked() const { return a_->asked + b_->asked; }

  base::ManualClock clock_;
  std::shared_ptr<FakeEngine> a_ = std::make_shared<FakeEngine>(), b_ = std::make_shared<FakeEngine>();
  std::unique_ptr<EngineSet> set_ = std::make_unique<EngineSet>(std::vector<std::shared_ptr<Client>>{a_, b_}, clock_);
};

TEST_F(EngineSetTest, RequestsGoWhereTheFewestAreInFlight) {
  Heard heard[6];
  std::vector<std::unique_ptr<Client::Request>> requests;
  for (Heard& one : heard) requests.push_back(Ask(one));
  EXPECT_EQ(a_->asked, 3);
  EXPECT_EQ(b_->asked, 3);
  requests.clear();
  EXPECT_EQ(a_->open + b_->open, 0);
}

TEST_F(EngineSetTest, ARequestThatOneEngineRejectsGoesToTheOther) {
  for (const absl::Status& why : {absl::UnavailableError("gone"), absl::ResourceExhaustedError("full"),
                                  absl::NotFoundError("version 3 is not held")}) {
    a_->rejection = why;
    Heard heard[4];
    std::vector<std::unique_ptr<Client::Request>> requests;
    for (Heard& one : heard) requests.push_back(Ask(one));
    b_->Deliver(Last());
    for (const Heard& one : heard) {
      EXPECT_EQ(one.chunks, 1) << why;
      EXPECT_TRUE(one.error.ok()) << one.error;
    }
    EXPECT_EQ(a_->open, 0) << "a refused request holds nothing";
  }
}

TEST_F(EngineSetTest, AnEngineThatJoinsTakesRequestsAndThoseThatOthersReject) {
  Heard early;
  a_->rejection = absl::UnavailableError("gone");
  const auto waits = Ask(early);  // at b
  const auto joined = std::make_shared<FakeEngine>();
  set_->Add(joined);
  Heard heard[2];
  std::vector<std::unique_ptr<Client::Request>> requests;
  for (Heard& one : heard) requests.push_back(Ask(one));
  EXPECT_GE(joined->asked, 1) << "it had the fewest in flight";
  b_->rejection = absl::UnavailableError("gone too");
  b_->Deliver(b_->rejection);
  joined->Deliver(Last());
  EXPECT_EQ(early.chunks, 1) << "a request that began before it joined";
  for (const Heard& one : heard) EXPECT_EQ(one.chunks, 1);
  EXPECT_EQ(set_->Status()->running(), 1);
}

TEST_F(EngineSetTest, EveryEngineThatIsAskedGetsTheWholeRequest) {
  a_->rejection = b_->rejection = absl::UnavailableError("gone");
  v1::GenerateRequest ask;
  for (const int32_t id : {3, 1, 2}) ask.add_prompt_ids(id);
  const auto request = set_->Generate(std::move(ask), [](const absl::StatusOr<v1::GenerateChunk>&) {});
  const std::vector<std::vector<int32_t>> expected = {{3, 1, 2}};
  EXPECT_EQ(a_->prompts, expected);
  EXPECT_EQ(b_->prompts, expected);
}

TEST_F(EngineSetTest, OtherFaultsAreTheRequestsOwn) {
  a_->rejection = b_->rejection = absl::InvalidArgumentError("prompt_ids is empty");
  Heard heard;
  const auto request = Ask(heard);
  EXPECT_EQ(heard.error.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(asked(), 1);
}

TEST_F(EngineSetTest, TheCallerGetsTheLastRejectionAfterAllHaveRejected) {
  a_->rejection = b_->rejection = absl::UnavailableError("gone");
  Heard heard;
  const auto request = Ask(heard);
  EXPECT_EQ(heard.error.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(heard.error.message(), "gone");
  EXPECT_EQ(asked(), 2);
}

// An engine that is gone refuses at once, and so has the fewest in flight.
TEST_F(EngineSetTest, AnEngineThatIsGoneIsPassedOverForAWhile) {
  a_->rejection = absl::UnavailableError("gone");
  Heard heard[40];
  std::vector<std::unique_ptr<Client::Request>> requests;
  for (int i = 0; i < 10; ++i) requests.push_back(Ask(heard[i]));
  EXPECT_EQ(a_->asked, 1);
  EXPECT_EQ(b_->asked, 10);
  // Still gone: the pause grows.
  clock_.Advance(seconds(1));
  for (int i = 10; i < 20; ++i) requests.push_back(Ask(heard[i]));
  EXPECT_EQ(a_->asked, 2);
  clock_.Advance(seconds(1));
  for (int i = 20; i < 30; ++i) requests.push_back(Ask(heard[i]));
  EXPECT_EQ(a_->asked, 2);
  // It is back. With nothing in flight it gets every new request.
  clock_.Advance(seconds(1));
  a_->rejection = absl::OkStatus();
  for (int i = 30; i < 40; ++i) requests.push_back(Ask(heard[i]));
  EXPECT_EQ(a_->asked, 12);
  for (const Heard& one : heard) EXPECT_TRUE(one.error.ok()) << one.error;
}

TEST_F(EngineSetTest, ARequestThatHasBegunStaysWithItsEngine) {
  Heard heard;
  const auto request = Ask(heard);
  FakeEngine& engine = a_->asked == 1 ? *a_ : *b_;
  engine.Deliver(v1::GenerateChunk());
  engine.Deliver(absl::UnavailableError("died"));
  EXPECT_EQ(heard.chunks, 1);
  EXPECT_EQ(heard.error.message(), "died");
  EXPECT_EQ(asked(), 1);
}

TEST_F(EngineSetTest, ARequestThatWaitedForAnEngineThatDiesMovesOn) {
  Heard heard;
  const auto request = Ask(heard);
  FakeEngine &first = a_->asked == 1 ? *a_ : *b_, &other = a_->asked == 1 ? *b_ : *a_;
  first.Deliver(absl::UnavailableError("died"));
  EXPECT_EQ(other.asked, 1);
  other.Deliver(Last());
  EXPECT_EQ(heard.chunks, 1);
  EXPECT_TRUE(heard.error.ok());
}

TEST_F(EngineSetTest, ADestroyedRequestHearsNothingAndDoesNotMove) {
  Heard heard;
  Ask(heard).reset();
  a_->Deliver(absl::UnavailableError("died"));
  b_->Deliver(absl::UnavailableError("died"));
  EXPECT_EQ(heard.chunks, 0);
  EXPECT_TRUE(heard.error.ok());
  EXPECT_EQ(asked(), 1);
  EXPECT_EQ(a_->open + b_->open, 0);
}

TEST_F(EngineSetTest, ARequestMayOutliveTheSetAndThenDoesNotMove) {
  Heard heard;
  const auto request = Ask(heard);
  set_.reset();
  a_->Deliver(absl::UnavailableError("shutting down"));
  b_->Deliver(absl::UnavailableError("shutting down"));
  EXPECT_EQ(heard.error.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(asked(), 1);
}

TEST_F(EngineSetTest, AnEpisodesCallsGoToTheEngineThatHasTheirPrefix) {
  v1::GenerateRequest request;
  request.set_lineage("episode");
  for (int i = 0; i < 400; ++i) request.add_prompt_ids(i);
  int first = -1;
  for (int turn = 0; turn < 10; ++turn) {
    const auto handle = set_->Generate(request, [](const absl::StatusOr<v1::GenerateChunk>&) {});
    clock_.Advance(std::chrono::milliseconds(50));
    v1::GenerateChunk answer = Last();
    answer.add_token_ids(1000 + turn);
    v1::VersionRun& run = *answer.add_versions();
    run.set_version(turn / 4);
    run.set_count(1);
    a_->Deliver(answer);
    b_->Deliver(answer);
    request.add_prompt_ids(1000 + turn);
    if (first < 0) first = b_->asked;
  }
  EXPECT_EQ(b_->asked, first * 10) << "one engine got all turns, over two weight updates";
  EXPECT_THAT(set_->MetricsText(), testing::HasSubstr("ingot_router_stayed_total 9"));
  EXPECT_THAT(set_->MetricsText(), testing::HasSubstr("ingot_router_moved_total 0"));
}

TEST_F(EngineSetTest, FewestIgnoresPrefixes) {
  set_ = std::make_unique<EngineSet>(std::vector<std::shared_ptr<Client>>{a_, b_}, clock_,
                                     RouterOptions{.policy = RouterPolicy::kFewest});
  v1::GenerateRequest request;
  request.set_lineage("episode");
  request.mutable_prompt_ids()->Resize(4000, 7);
  for (int turn = 0; turn < 10; ++turn) set_->Generate(request, [](const absl::StatusOr<v1::GenerateChunk>&) {});
  EXPECT_EQ(a_->asked, 5);
}

TEST_F(EngineSetTest, StatusAddsUpTheEnginesThatAnswer) {
  b_->version = 4;
  EXPECT_EQ(set_->Status()->version(), 4);
  EXPECT_THAT(set_->Status()->held_versions(), testing::ElementsAre(4));
  EXPECT_THAT(set_->Status()->held_loaded_unix_ns(), testing::ElementsAre(4000));
  EXPECT_EQ(set_->Status()->running(), 2);
  EXPECT_FALSE(set_->Status()->has_prefill());
  b_->prefill.set_requests(2);
  b_->prefill.set_tokens(60);
  b_->prefill.set_prefilled(16);
  b_->prefill.set_oldest_seconds(9);
  EXPECT_EQ(set_->Status()->prefill().prefilled(), 16);
  a_->prefill = b_->prefill;
  a_->prefill.set_oldest_seconds(3);
  EXPECT_EQ(set_->Status()->prefill().requests(), 4);
  EXPECT_EQ(set_->Status()->prefill().tokens(), 120);
  EXPECT_EQ(set_->Status()->prefill().prefilled(), 32);
  EXPECT_EQ(set_->Status()->prefill().oldest_seconds(), 9);
  b_->rejection = absl::UnavailableError("gone");
  EXPECT_EQ(set_->Status()->version(), 5);
  EXPECT_EQ(set_->Status()->running(), 1);
  a_->rejection = absl::UnavailableError("gone too");
  EXPECT_TRUE(absl::IsUnavailable(set_->Status().status()));
}

TEST_F(EngineSetTest, TheFirstTokenIsTheSlowestEnginesOfAVersionThatAllHave) {
  const auto times = [](int64_t version, double apply_ms, double first_token_ms) {
    v1::SwapTimes all;
    all.set_version(version);
    all.set_apply_ms(apply_ms);
    all.set_first_token_ms(first_token_ms);
    return all;
  };
  a_->first_token = times(5, 10, 20);
  EXPECT_FALSE(set_->Status()->has_first_token());
  b_->first_token = times(5, 15, 16);
  EXPECT_EQ(set_->Status()->first_token().apply_ms(), 15);
  b_->first_token = times(4, 1, 1);
  EXPECT_EQ(set_->Status()->first_token().version(), 4) << "not every engine has sampled on the newer one";
}

// For the sanitizers: handles are destroyed while engines refuse, die and answer.
TEST_F(EngineSetTest, RequestsMoveWhileTheirHandlesAreDestroyed) {
  std::atomic<bool> stop{false};
  std::thread deaths([&] {
    while (!stop) {
      a_->Deliver(absl::UnavailableError("died"));
      b_->Deliver(Last());
    }
  });
  std::vector<std::thread> callers;
  for (int t = 0; t < 3; ++t) {
    callers.emplace_back([&] {
      for (int i = 0; i < 300; ++i) {
        std::atomic<int> heard{0};
        auto request = set_->Generate({}, [&](const absl::StatusOr<v1::GenerateChunk>&) { ++heard; });
        if (i % 3 != 0) std::this_thread::yield();
        request.reset();
        const int before = heard;
        std::this_thread::yield();
        EXPECT_EQ(heard, before) << "nothing is heard once the handle is gone";
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  stop = true;
  deaths.join();
  EXPECT_EQ(a_->open + b_->open, 0);
}

}  // namespace
}  // namespace ingot::rollout
