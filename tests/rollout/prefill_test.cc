// Prefill and decode apart: an engine computes long prompts for another one, which reads them from the KV store and
// samples. If the first engine fails or is slow, the second one computes the prompt, and the answer is the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <filesystem>

#include "rollout/kv_store_rig.h"
#include "rollout/routing/engine_set.h"

namespace ingot::rollout::prefill_test {
namespace {

const v1::GenerateRequest kAsk = Ask(LongPrompt(67), 5);

// Calls an engine that the test owns.
class EngineRef final : public Client {
 public:
  explicit EngineRef(Engine& engine) : engine_(engine) {}
  std::unique_ptr<Request> Generate(v1::GenerateRequest request, OnChunk on_chunk) override {
    return engine_.Generate(std::move(request), std::move(on_chunk));
  }
  absl::StatusOr<v1::EngineStatusResponse> Status() override { return engine_.Status(); }

 private:
  Engine& engine_;
};

class PrefillTest : public testing::Test {
 protected:
  explicit PrefillTest(int64_t wait_ms = 60'000)
      : prefiller_(StoreRig(options_)),
        decoder_(StoreRig(options_)),
        set_({std::make_shared<EngineRef>(*prefiller_->engine), std::make_shared<EngineRef>(*decoder_->engine)}, clock_,
             {.prefill_engines = 1, .prefill_min_tokens = 16, .prefill_wait_ms = wait_ms}) {}

  Answer Expected(const v1::GenerateRequest& ask) {
    Rig rig(Options(), FakeSnapshot(1, 1001));
    return AnswerOf(*rig.engine, ask);
  }
  int64_t Prefills() { return prefiller_->engine->Status()->prefill_requests(); }
  int64_t Computed(const Rig& rig) { return rig.runner->rows_computed; }

  const StoreFolder folder_;
  const EngineOptions options_ = StoreOptions(folder_);
  const std::unique_ptr<Rig> prefiller_, decoder_;
  const base::ManualClock clock_;  // no pause ends
  EngineSet set_;
};

TEST_F(PrefillTest, TheDecoderReadsWhatThePrefillerComputed) {
  EXPECT_EQ(AnswerOf(set_, kAsk), Expected(kAsk));
  EXPECT_EQ(Prefills(), 1);
  EXPECT_EQ(Computed(*prefiller_), 64);
  EXPECT_EQ(Computed(*decoder_), 67 - 64 + 4);
  EXPECT_EQ(prefiller_->engine->Status()->sampled_tokens(), 0);
  EXPECT_EQ(prefiller_->engine->Status()->kv_blocks_used(), 0);
}

TEST_F(PrefillTest, AShortPromptStaysOnItsEngine) {
  const v1::GenerateRequest ask = Ask(LongPrompt(15), 5);
  EXPECT_EQ(AnswerOf(set_, ask), Expected(ask));
  EXPECT_EQ(Prefills(), 0);
  EXPECT_EQ(Computed(*prefiller_), 0);
}

TEST_F(PrefillTest, APromptThatTheDecoderHasIsNotComputedAgain) {
  v1::GenerateRequest ask = Ask(LongPrompt(150), 5);  // the router sees prefixes of 64 tokens
  EXPECT_EQ(AnswerOf(set_, ask), Expected(ask));
  ask.mutable_sampling()->set_seed(2);
  ask.mutable_prompt_ids()->Truncate(140);
  EXPECT_EQ(AnswerOf(set_, ask), Expected(ask));
  EXPECT_EQ(Prefills(), 1);
}

TEST_F(PrefillTest, AGroupsPromptIsPrefilledOnce) {
  const v1::GenerateRequest ask = Ask(LongPrompt(150), 5);
  const Answer expected = Expected(ask);
  prefiller_->gate.Close();
  std::deque<Collect> results(3);
  std::vector<std::unique_ptr<Client::Request>> handles;
  for (Collect& result : results) handles.push_back(set_.Generate(ask, result.OnChunk()));
  prefiller_->gate.AwaitHeld();
  prefiller_->gate.Open();
  for (Collect& result : results) {
    EXPECT_TRUE(result.Wait().ok());
    EXPECT_EQ(result.ids, expected.ids);
  }
  EXPECT_EQ(Prefills(), 3);
  EXPECT_EQ(Computed(*prefiller_), 144);
  EXPECT_LT(Computed(*decoder_), 144) << "it computes no whole chunk";
}

TEST_F(PrefillTest, APromptInTheCacheIsWrittenAndEnds) {
  v1::GenerateRequest ask = kAsk;
  ask.set_prefill_only(true);
  for (int i = 0; i < 2; ++i) {
    for (const std::string& path : folder_.Chunks()) std::filesystem::remove(path);  // as if they were evicted
    Collect result;
    const auto handle = prefiller_->engine->Generate(ask, result.OnChunk());
    EXPECT_TRUE(result.Wait().ok());
    EXPECT_TRUE(result.ids.empty());
    EXPECT_EQ(result.last.finish(), v1::FINISH_STOP);
    EXPECT_EQ(folder_.Chunks().size(), 8u);
  }
  ask.mutable_prompt_ids()->Truncate(3);  // no whole chunk
  Collect result;
  const auto handle = prefiller_->engine->Generate(ask, result.OnChunk());
  EXPECT_TRUE(result.Wait().ok());
  EXPECT_EQ(Computed(*prefiller_), 64);
}

TEST_F(PrefillTest, AnEngineWithoutAStoreRefuses) {
  Rig rig(Options(), FakeSnapshot(1, 1001));
  v1::GenerateRequest ask = kAsk;
  ask.set_prefill_only(true);
  Collect result;
  const auto handle = rig.engine->Generate(ask, result.OnChunk());
  EXPECT_THAT(std::string(result.Wait().message()), testing::HasSubstr("rollout.kv_store.path"));
}

TEST_F(PrefillTest, ADeadPrefillerIsComputedAround) {
  prefiller_->engine->Shutdown();
  EXPECT_EQ(AnswerOf(set_, kAsk), Expected(kAsk));
  EXPECT_EQ(Computed(*decoder_), 67 + 4);
  EXPECT_THAT(set_.MetricsText(), testing::HasSubstr("ingot_router_prefills_failed_total 1"));
}

TEST_F(PrefillTest, APrefillerThatDiesMeanwhileIsComputedAround) {
  prefiller_->gate.Close();
  Collect result;
  const auto handle = set_.Generate(kAsk, result.OnChunk());
  prefiller_->gate.AwaitHeld();
  prefiller_->gate.Open();
  prefiller_->engine->Shutdown();
  EXPECT_TRUE(result.Wait().ok());
  EXPECT_EQ(result.ids, Expected(kAsk).ids);
}

TEST_F(PrefillTest, WithoutADecoderThePrefillerSamples) {
  decoder_->engine->Shutdown();
  EXPECT_EQ(AnswerOf(set_, kAsk), Expected(kAsk));
}

TEST_F(PrefillTest, ACancelledCallCancelsItsPrefill) {
  prefiller_->gate.Close();
  Collect result;
  auto handle = set_.Generate(kAsk, result.OnChunk());
  prefiller_->gate.AwaitHeld();
  handle.reset();
  prefiller_->gate.Open();
  AwaitTrue([&] { return prefiller_->engine->Status()->kv_blocks_used() == 0; });
  EXPECT_EQ(Computed(*decoder_), 0);
}

class ImpatientPrefillTest : public PrefillTest {
 protected:
  ImpatientPrefillTest() : PrefillTest(/*wait_ms=*/30) {}
};

TEST_F(ImpatientPrefillTest, ASlowPrefillerIsComputedAround) {
  prefiller_->gate.Close();
  EXPECT_EQ(AnswerOf(set_, kAsk), Expected(kAsk));
  EXPECT_EQ(Computed(*decoder_), 67 + 4);
  const v1::GenerateRequest next = Ask(LongPrompt(67, 3), 5);
  EXPECT_EQ(AnswerOf(set_, next), Expected(next));
  EXPECT_THAT(set_.MetricsText(), testing::HasSubstr("ingot_router_prefills_total 1")) << "the next one does not wait";
  prefiller_->gate.Open();
}

}  // namespace
}  // namespace ingot::rollout::prefill_test
