// Engines that share the KV of prompts in a store: what they compute, and what a request gets from a store with faults.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <fstream>
#include <span>

#include "kv/memory_store.h"
#include "rollout/kv_store_rig.h"

namespace ingot::rollout::kv_store_test {
namespace {

const v1::GenerateRequest kAsk = Ask(LongPrompt(67), 5);
constexpr int32_t kWhole = 64;  // tokens of kAsk in whole chunks

// What an engine without a store answers.
Answer Expected(const v1::GenerateRequest& ask,
                std::shared_ptr<const weights::Snapshot> weights = FakeSnapshot(1, 1001)) {
  Rig rig(Options(), std::move(weights));
  return AnswerOf(*rig.engine, ask);
}

class KvStoreTest : public testing::Test {
 protected:
  // Writes the chunks of kAsk's prompt.
  void WriteChunks() {
    const auto writer = StoreRig(options_);
    EXPECT_EQ(AnswerOf(*writer->engine, kAsk), Expected(kAsk));
    AwaitPuts(*writer->engine, kWhole / 8);
  }

  const StoreFolder folder_;
  EngineOptions options_ = StoreOptions(folder_);
};

TEST_F(KvStoreTest, AnotherEngineComputesNoWholeChunk) {
  WriteChunks();
  const auto reader = StoreRig(options_);
  const Answer answer = AnswerOf(*reader->engine, kAsk);
  EXPECT_EQ(answer, Expected(kAsk));
  EXPECT_EQ(answer.cached, kWhole);
  EXPECT_EQ(reader->runner->rows_computed, 67 - kWhole + 4)
      << "the rest of the prompt, and all but the last answered id";
  EXPECT_EQ(StoreStatus(*reader->engine).fetched_tokens(), kWhole);
  EXPECT_EQ(StoreStatus(*reader->engine).put_chunks(), 0) << "the store has them";
}

TEST_F(KvStoreTest, ALongerPromptReadsTheChunksThatItShares) {
  WriteChunks();
  const auto reader = StoreRig(options_);
  std::vector<int32_t> prompt = LongPrompt(67);
  prompt[40] = (prompt[40] + 1) % kVocab;  // in the sixth chunk
  const v1::GenerateRequest ask = Ask(prompt, 3);
  const Answer answer = AnswerOf(*reader->engine, ask);
  EXPECT_EQ(answer, Expected(ask));
  EXPECT_EQ(answer.cached, 40);
  AwaitPuts(*reader->engine, 3);
}

TEST_F(KvStoreTest, AGroupReadsItsPromptOnce) {
  WriteChunks();
  const auto reader = StoreRig(options_);
  reader->gate.Close();
  std::deque<Collect> results(4);
  std::vector<std::unique_ptr<Client::Request>> handles;
  for (Collect& result : results) handles.push_back(reader->engine->Generate(kAsk, result.OnChunk()));
  reader->gate.Open();
  for (Collect& result : results) {
    ASSERT_TRUE(result.Wait().ok());
    EXPECT_EQ(result.ids, Expected(kAsk).ids);
  }
  EXPECT_EQ(StoreStatus(*reader->engine).fetched_tokens(), kWhole);
}

TEST_F(KvStoreTest, AVersionNeverReadsTheKvOfAnother) {
  WriteChunks();
  const auto same_number = FakeSnapshot(1, 999);
  const auto resumed = StoreRig(options_, OpenStore(options_), same_number);
  EXPECT_EQ(AnswerOf(*resumed->engine, kAsk), Expected(kAsk, same_number)) << "a run that was resumed made it anew";
  EXPECT_EQ(StoreStatus(*resumed->engine).fetched_tokens(), 0);

  const auto reader = StoreRig(options_, OpenStore(options_), nullptr);
  ASSERT_TRUE(reader->Update(1, /*retain=*/true).ok());
  ASSERT_TRUE(reader->Update(2).ok());
  v1::GenerateRequest pinned = kAsk;
  pinned.set_pinned_version(1);
  EXPECT_EQ(AnswerOf(*reader->engine, pinned), Expected(kAsk)) << "a pinned version still reads its own";
  EXPECT_EQ(StoreStatus(*reader->engine).fetched_tokens(), kWhole);
  EXPECT_EQ(AnswerOf(*reader->engine, kAsk), Expected(kAsk, FakeSnapshot(2, 1002)));
  EXPECT_EQ(StoreStatus(*reader->engine).fetched_tokens(), kWhole);
}

TEST_F(KvStoreTest, OtherNumericsShareNothing) {
  WriteChunks();
  const auto reader = StoreRig(options_);
  reader->runner->kv_numerics = "another instruction set";
  EXPECT_EQ(AnswerOf(*reader->engine, kAsk).cached, 0);
}

TEST_F(KvStoreTest, AFlippedBitIsComputedAndWrittenAgain) {
  WriteChunks();
  for (const std::string& path : folder_.Chunks()) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-1, std::ios::end);
    const char last = static_cast<char>(file.get() ^ 1);
    file.seekp(-1, std::ios::end);
    file.put(last);
  }
  const auto reader = StoreRig(options_);
  EXPECT_EQ(AnswerOf(*reader->engine, kAsk), Expected(kAsk));
  EXPECT_EQ(StoreStatus(*reader->engine).fetched_tokens(), 0);
  EXPECT_EQ(StoreStatus(*reader->engine).corrupt(), 1) << "it reads no chunk after the first";
  EXPECT_EQ(StoreStatus(*reader->engine).fetch_abandoned(), 1);
  AwaitPuts(*reader->engine, 1);
}

TEST_F(KvStoreTest, AnswersAreWrittenOnlyIfAsked) {
  const v1::GenerateRequest ask = Ask(LongPrompt(15), 20);
  {
    const auto writer = StoreRig(options_);
    AnswerOf(*writer->engine, ask);
    AwaitPuts(*writer->engine, 1);
  }
  EXPECT_EQ(folder_.Chunks().size(), 1u);
  options_.kv_store.write = kv::Write::kAll;
  const auto writer = StoreRig(options_);
  AnswerOf(*writer->engine, ask);
  AwaitPuts(*writer->engine, 3);
  EXPECT_EQ(folder_.Chunks().size(), 4u) << "34 of 35 tokens are computed";
}

TEST_F(KvStoreTest, APreemptedRequestReadsItsPromptAgain) {
  options_.kv_cache_tokens = 100;
  options_.context_length = 96;
  const auto rig = StoreRig(options_);
  std::deque<Collect> results(3);
  std::vector<std::unique_ptr<Client::Request>> handles;
  std::vector<v1::GenerateRequest> asks;
  for (int i = 0; i < 3; ++i) asks.push_back(Ask(LongPrompt(26, 3 * i), 40, i));
  for (int i = 0; i < 3; ++i) handles.push_back(rig->engine->Generate(asks[i], results[i].OnChunk()));
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(results[i].Wait().ok());
    EXPECT_EQ(results[i].ids, Expected(asks[i]).ids) << i;
  }
}

// Delegates to a store, or fails, or hangs.
class FaultyStore final : public kv::Store {
 public:
  explicit FaultyStore(std::shared_ptr<kv::Store> store) : store_(std::move(store)) {}

  int64_t Longest(const kv::Root& root, std::span<const kv::Chunk> chain) override {
    ++lookups;
    Pass(/*reads=*/false);
    return store_->Longest(root, chain);
  }
  absl::Status Get(const kv::Root& root, const kv::Chunk& chunk, const kv::PlanesToRead& planes) override {
    ++reads;
    Pass(/*reads=*/true);
    return store_->Get(root, chunk, planes);
  }
  absl::Status Put(const kv::Root& root, const kv::Chunk& chunk, const kv::PlanesToWrite& planes) override {
    Pass(/*reads=*/false);
    return store_->Put(root, chunk, planes);
  }
  void Hold(std::vector<base::Key128> roots) override { store_->Hold(std::move(roots)); }
  kv::StoreStats stats() const override { return store_->stats(); }

  std::atomic<int> lookups{0}, reads{0};

  void Hang(bool hang, bool only_reads = false) {
    base::MutexLock lock(mu_);
    hangs_ = hang;
    only_reads_ = only_reads;
    changed_.SignalAll();
  }

 private:
  void Pass(bool reads) {
    base::MutexLock lock(mu_);
    while (hangs_ && (reads || !only_reads_)) changed_.Wait(mu_);
  }

  const std::shared_ptr<kv::Store> store_;
  base::Mutex mu_;
  base::CondVar changed_;
  bool hangs_ ABSL_GUARDED_BY(mu_) = false, only_reads_ ABSL_GUARDED_BY(mu_) = false;
};

// The engine swaps while it asks the store for a prompt of the previous version, or while it reads it.
TEST_F(KvStoreTest, ASwapDuringAFetchDropsIt) {
  WriteChunks();
  for (const bool reading : {false, true}) {
    const auto store = std::make_shared<FaultyStore>(OpenStore(options_));
    const auto reader = StoreRig(options_, store);
    store->Hang(true, /*only_reads=*/reading);
    Collect result;
    const auto handle = reader->engine->Generate(kAsk, result.OnChunk());
    AwaitTrue([&] { return (reading ? store->reads : store->lookups) > 0; });
    ASSERT_TRUE(reader->Update(2).ok());
    store->Hang(false);
    ASSERT_TRUE(result.Wait().ok());
    const Answer expected = Expected(kAsk, FakeSnapshot(2, 1002));
    EXPECT_EQ(result.ids, expected.ids) << reading;
    EXPECT_EQ(result.logprobs, expected.logprobs);
    // The second engine may find the chunks of version 2 that the first one has published.
    if (!reading) {
      EXPECT_EQ(result.last.cached_tokens(), 0);
    }
    for (const v1::VersionRun& run : result.versions) EXPECT_TRUE(run.version() == 2 && !run.kv_mixed());
    AwaitTrue([&] { return reader->engine->Status()->kv_blocks_used() == 0; });
  }
}

TEST_F(KvStoreTest, AHangingStoreStopsNoRequest) {
  WriteChunks();
  const auto store = std::make_shared<FaultyStore>(OpenStore(options_));
  const auto reader = StoreRig(options_, store);
  AnswerOf(*reader->engine, Ask(LongPrompt(60, 5), 1));  // measures the engine's speed
  store->Hang(true);
  EXPECT_EQ(AnswerOf(*reader->engine, kAsk), Expected(kAsk));
  EXPECT_GE(StoreStatus(*reader->engine).fetch_abandoned(), 1);
  for (int i = 1; i < 20; ++i) {
    const v1::GenerateRequest ask = Ask(LongPrompt(70, i), 3);
    EXPECT_EQ(AnswerOf(*reader->engine, ask), Expected(ask)) << "nothing else is asked of it";
  }
  EXPECT_EQ(reader->engine->Status()->kv_blocks_used(), 0) << "no block is held for it";
  store->Hang(false);
}

TEST_F(KvStoreTest, AGroupAsksOnceForAPromptThatTheStoreLacks) {
  const auto store = std::make_shared<FaultyStore>(OpenStore(options_));
  store->Hang(true);
  const auto reader = StoreRig(options_, store);
  std::deque<Collect> results(4);
  std::vector<std::unique_ptr<Client::Request>> handles;
  for (Collect& result : results) handles.push_back(reader->engine->Generate(kAsk, result.OnChunk()));
  AwaitTrue([&] { return reader->engine->Status()->prefill().requests() == 4; });  // all of them wait
  store->Hang(false);
  for (Collect& result : results) {
    ASSERT_TRUE(result.Wait().ok());
    EXPECT_EQ(result.ids, Expected(kAsk).ids);
  }
  EXPECT_EQ(store->lookups, 1);
}

TEST_F(KvStoreTest, ARequestWaitsATenthOfComputingUntilReadingIsMeasured) {
  base::ManualClock clock;
  const auto store = std::make_shared<FaultyStore>(OpenStore(options_));
  store->Hang(true);
  FakeRunner pages(kVocab, 8192, 400, 4);
  KvBlocks blocks(100, 4);
  KvTransfer transfer({store, options_.kv_store, [] {}}, &blocks, &clock);
  const auto version = std::make_shared<WeightVersion>();
  version->salt = 1;
  Sequence sequence;
  sequence.tokens = LongPrompt(kWhole + 1);
  transfer.Computed(kWhole, std::chrono::seconds(kWhole));  // a second per token
  transfer.Look(sequence, *version, &pages);
  clock.Advance(std::chrono::milliseconds(6390));
  EXPECT_TRUE(transfer.Awaits(sequence, 1));
  clock.Advance(std::chrono::milliseconds(20));
  EXPECT_FALSE(transfer.Awaits(sequence, 1));
  store->Hang(false);
}

TEST_F(KvStoreTest, APrefillEndsAtItsDeadlineIfTheStoreHangs) {
  options_.request_deadline_ms = 1000;
  const auto store = std::make_shared<FaultyStore>(OpenStore(options_));
  const auto writer = StoreRig(options_, store);
  AnswerOf(*writer->engine, Ask(LongPrompt(60, 5), 1));  // measures the engine's speed
  store->Hang(true);
  v1::GenerateRequest ask = kAsk;
  ask.set_prefill_only(true);
  Collect result;
  const auto handle = writer->engine->Generate(ask, result.OnChunk());
  EXPECT_TRUE(result.Wait().ok());
  store->Hang(false);
}

TEST_F(KvStoreTest, ChunksThatDoNotFitInMemoryAreDropped) {
  options_.kv_store.max_pending_bytes = 3 * 8 * 8;
  const auto store = std::make_shared<FaultyStore>(OpenStore(options_));
  const auto writer = StoreRig(options_, store);
  AnswerOf(*writer->engine, Ask(LongPrompt(60, 5), 1));  // measures the engine's speed
  const auto offered = [&] {
    const v1::KvStoreStatus status = StoreStatus(*writer->engine);
    return status.put_chunks() + status.put_dropped();
  };
  AwaitTrue([&] { return offered() == 56 / 8; });
  const v1::KvStoreStatus before = StoreStatus(*writer->engine);
  store->Hang(true);
  EXPECT_EQ(AnswerOf(*writer->engine, kAsk), Expected(kAsk));
  EXPECT_EQ(StoreStatus(*writer->engine).put_dropped() - before.put_dropped(), kWhole / 8 - 3);
  store->Hang(false);
  AwaitPuts(*writer->engine, before.put_chunks() + 3);
}

TEST_F(KvStoreTest, AStoreThatFailsLaterIsComputedAround) {
  WriteChunks();
  const auto reader = StoreRig(options_);
  std::filesystem::remove_all(folder_.path());
  EXPECT_EQ(AnswerOf(*reader->engine, kAsk), Expected(kAsk));
  AwaitTrue([&] { return StoreStatus(*reader->engine).put_dropped() > 0; });
  EXPECT_EQ(StoreStatus(*reader->engine).fetched_tokens(), 0);
}

TEST_F(KvStoreTest, OptionsThatDoNotFitAreNamed) {
  const auto error = [&](auto change) {
    EngineOptions options = options_;
    change(options);
    return std::string(options.Validate().message());
  };
  EXPECT_EQ(error([](EngineOptions&) {}), "");
  EXPECT_THAT(error([](EngineOptions& o) { o.kv_store.chunk_tokens = 6; }), testing::HasSubstr("kv_block_tokens, 4"));
  EXPECT_THAT(error([](EngineOptions& o) { o.kv_store.chunk_tokens = 256; }),
              testing::HasSubstr("kv_cache_tokens, 400"));
  EXPECT_THAT(error([](EngineOptions& o) { o.prefix_cache = false; }), testing::HasSubstr("prefix_cache"));
  EXPECT_THAT(error([](EngineOptions& o) { o.kv_store.max_bytes = 0; }), testing::HasSubstr("kv_store.max_bytes"));
  EXPECT_THAT(error([](EngineOptions& o) { o.kv_store.io_threads = 0; }), testing::HasSubstr("kv_store.io_threads"));
  EXPECT_THAT(error([](EngineOptions& o) { o.router.prefill_engines = 1, o.kv_store.path = ""; }),
              testing::HasSubstr("kv_store.path"));
  EXPECT_THAT(error([](EngineOptions& o) { o.kv_store.path = "s3://kv"; }), testing::HasSubstr("memory://"));
  EXPECT_EQ(error([](EngineOptions& o) { o.router.prefill_engines = 1, o.kv_store.path = kv::kMemoryPath; }), "");
  EXPECT_THAT(error([](EngineOptions& o) { o.router.prefill_engines = 1, o.kv_store.write = kv::Write::kNone; }),
              testing::HasSubstr("kv_store.write"));
}

}  // namespace
}  // namespace ingot::rollout::kv_store_test
