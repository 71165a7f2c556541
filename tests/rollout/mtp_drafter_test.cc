// The draft head's drafter against a runner in which the next distribution depends only on the last id, so that a head
// can know it.
#include "rollout/speculation/mtp_drafter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <vector>

#include "base/rng.h"
#include "rollout/fake_model.h"
#include "rollout/speculation/speculator.h"

namespace ingot::rollout {
namespace {

constexpr int64_t kVocab = 16;

std::vector<float> RowAfter(int64_t id, float temperature) {
  std::vector<float> row;
  for (int64_t i = 0; i < kVocab; ++i)
    row.push_back(static_cast<float>(3 * base::UniformAt(static_cast<uint64_t>(id), i)) / temperature);
  return row;
}

// Keeps the id of a hidden state's row in its slot, and its head is exact for `known` ids.
class MarkovRunner final : public ModelRunner {
 public:
  int64_t vocab_size() const override { return kVocab; }
  int64_t context_length() const override { return 1000; }
  const std::vector<int32_t>& eos_ids() const override { return eos_; }
  int64_t max_weight_bytes() const override { return 1; }
  absl::StatusOr<std::shared_ptr<const RunnableModel>> Load(std::shared_ptr<const weights::Snapshot>) override {
    return std::make_shared<FakeRunnableModel>();
  }
  absl::StatusOr<std::span<const float>> Forward(const RunnableModel&, const ForwardBatch&) override {
    return absl::UnimplementedError("not used");
  }
  std::span<const float> LogNormalizers() const override { return {}; }
  bool KeepHidden(size_t row, size_t slot) override {
    kept[slot] = row;
    return has_head;
  }
  absl::StatusOr<DraftRows> Draft(const RunnableModel&, const DraftBatch& batch) override {
    batches.push_back(batch);
    if (!fault.ok()) return fault;
    rows_.clear();
    for (size_t i = 0; i < batch.token_ids.size(); ++i) {
      std::vector<float> row = RowAfter(batch.token_ids[i], batch.temperatures[i]);
      if (broken) row.assign(kVocab, std::nanf(""));
      rows_.insert(rows_.end(), row.begin(), row.end());
    }
    return DraftRows{rows_, kVocab, {}};
  }

  bool has_head = true, broken = false;
  absl::Status fault;
  std::map<size_t, size_t> kept;  // rows by slot
  std::vector<DraftBatch> batches;

 private:
  std::vector<int32_t> eos_;
  std::vector<float> rows_;
};

struct World {
  explicit World(double sharpness = 1) {
    options.sharpness = sharpness;
    drafter = std::make_unique<MtpDrafter>(options, runner);
    version->version = 1;
    version->salt = 7;
    version->model = std::make_shared<FakeRunnableModel>();
    drafter->UseNewest(version);
  }

  std::unique_ptr<Sequence> Begin(uint64_t seed, float temperature) {
    auto sequence = std::make_unique<Sequence>();
    sequence->tokens = {1, 2, static_cast<int32_t>(seed % kVocab)};
    sequence->prompt_size = 2;
    sequence->draw = {.temperature = temperature, .seed = seed};
    sequence->drawn_row = seed;
    return sequence;
  }

  // The ids that the policy will sample next.
  std::vector<int32_t> Next(const Sequence& sequence, size_t count) {
    std::vector<int32_t> ids;
    const float temperature = sequence.draw.temperature == 0 ? 1 : sequence.draw.temperature;
    for (size_t i = 0; i < count; ++i) {
      const std::vector<float> row = RowAfter(ids.empty() ? sequence.tokens.back() : ids.back(), temperature);
      ids.push_back(*sampler.Draw({row, {}}, sequence.draw, sequence.sampled() + static_cast<int64_t>(i)));
    }
    return ids;
  }

  // Drafts for all, after `keep` of the proposed ids were planned for each.
  void Draft(std::vector<Sequence*> sequences, size_t keep) {
    std::vector<Drafter::Ask> asks;
    for (Sequence* sequence : sequences) asks.push_back({sequence, 100, &sequence->draft});
    drafter->Propose(asks);
    std::vector<Drafter::Ask> planned;
    for (Sequence* sequence : sequences) {
      if (sequence->draft.ids.empty()) continue;
      sequence->draft.ids.resize(std::min(keep, sequence->draft.ids.size()));
      planned.push_back({sequence, sequence->draft.ids.size(), &sequence->draft});
    }
    if (!planned.empty()) drafter->Complete(planned);
  }

  SpeculationOptions options;
  MarkovRunner runner;
  std::unique_ptr<MtpDrafter> drafter;
  std::shared_ptr<WeightVersion> version = std::make_shared<WeightVersion>();
  Sampler sampler;
};

TEST(MtpDrafterTest, AnExactHeadGuessesEveryDraw) {
  World world;
  std::vector<std::unique_ptr<Sequence>> sequences;
  std::vector<Sequence*> all;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    sequences.push_back(world.Begin(seed, 0.5f * static_cast<float>(seed % 4)));
    if (seed % 5 == 0) sequences.back()->draw.top_k = 3;
    if (seed % 7 == 0) sequences.back()->draw.top_p = 0.8f;
    all.push_back(sequences.back().get());
    world.drafter->Sampled(*all.back(), 1);
  }
  world.Draft(all, 3);
  for (Sequence* sequence : all) EXPECT_EQ(sequence->draft.ids, world.Next(*sequence, 3));
  EXPECT_EQ(world.runner.batches.size(), 3u);  // one pass per depth
}

TEST(MtpDrafterTest, OnlyPlannedGuessesAreComputed) {
  World world;
  const auto a = world.Begin(1, 1), b = world.Begin(2, 1);
  for (Sequence* sequence : {a.get(), b.get()}) world.drafter->Sampled(*sequence, 1);
  Drafter::Ask asks[] = {{a.get(), 100, &a->draft}, {b.get(), 2, &b->draft}};
  world.drafter->Propose(asks);
  EXPECT_EQ(a->draft.ids.size(), 3u);
  EXPECT_EQ(b->draft.ids.size(), 2u);
  EXPECT_TRUE(world.runner.batches.empty());
  a->draft.ids.resize(1);
  asks[0].most = 1;
  world.drafter->Complete(asks);
  EXPECT_EQ(a->draft.ids, world.Next(*a, 1));
  EXPECT_EQ(b->draft.ids, world.Next(*b, 2));
  ASSERT_EQ(world.runner.batches.size(), 2u);
  EXPECT_EQ(world.runner.batches[1].from, std::vector<int64_t>{1});  // the row of b at the first depth
}

TEST(MtpDrafterTest, ReadsTheRowThatDrewTheLastId) {
  World world;
  const auto a = world.Begin(1, 1);
  a->drawn_row = 5;
  world.drafter->Sampled(*a, 1);
  a->drawn_row = 9;
  world.drafter->Sampled(*a, 2);
  EXPECT_EQ(world.runner.kept, (std::map<size_t, size_t>{{0, 9}}));
  world.Draft({a.get()}, 1);
  EXPECT_TRUE(world.runner.batches[0].first);
  EXPECT_EQ(world.runner.batches[0].from, std::vector<int64_t>{0});
  world.drafter->Ended(*a);
  const auto b = world.Begin(2, 1);
  world.drafter->Sampled(*b, 1);
  EXPECT_EQ(world.runner.kept.size(), 1u) << "slots are used again";
}

TEST(MtpDrafterTest, GuessesNothingBeforeTheFirstIdOrWithoutAHead) {
  World world;
  const auto a = world.Begin(1, 1);
  world.Draft({a.get()}, 3);
  EXPECT_TRUE(a->draft.ids.empty());
  world.runner.has_head = false;
  world.drafter->Sampled(*a, 1);
  world.Draft({a.get()}, 3);
  EXPECT_TRUE(a->draft.ids.empty());
}

TEST(MtpDrafterTest, AHeadThatFailsIsNotAskedAgainForItsVersion) {
  for (const bool broken : {false, true}) {
    World world;
    world.runner.broken = broken;
    if (!broken) world.runner.fault = absl::InternalError("out of memory");
    const auto a = world.Begin(1, 1);
    world.drafter->Sampled(*a, 1);
    world.Draft({a.get()}, 3);
    EXPECT_TRUE(a->draft.ids.empty());
    world.Draft({a.get()}, 3);
    EXPECT_EQ(world.runner.batches.size(), 1u);
    EXPECT_EQ(world.drafter->failures(), 1);
    world.runner.broken = false;
    world.runner.fault = absl::OkStatus();
    world.version = std::make_shared<WeightVersion>(*world.version);
    world.version->salt = 8;
    world.drafter->UseNewest(world.version);
    world.Draft({a.get()}, 3);
    EXPECT_EQ(a->draft.ids, world.Next(*a, 3));
  }
}

TEST(MtpDrafterTest, RequestsOnTwoVersionsAreGuessedByTheirOwn) {
  World world;
  const auto a = world.Begin(1, 1), b = world.Begin(2, 1), c = world.Begin(3, 1);
  const auto pinned = std::make_shared<WeightVersion>(*world.version);
  pinned->salt = 3;
  b->pinned = pinned;
  for (Sequence* sequence : {a.get(), b.get(), c.get()}) world.drafter->Sampled(*sequence, 1);
  world.Draft({a.get(), b.get(), c.get()}, 2);
  ASSERT_EQ(world.runner.batches.size(), 4u);
  EXPECT_EQ(world.runner.batches[0].from, (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(world.runner.batches[2].from, (std::vector<int64_t>{1}));
  for (Sequence* sequence : {a.get(), b.get(), c.get()}) EXPECT_EQ(sequence->draft.ids, world.Next(*sequence, 2));
}

TEST(MtpDrafterTest, LearnsHowOftenItsGuessesAreSampled) {
  World world;
  const auto a = world.Begin(1, 1);
  world.drafter->Sampled(*a, 1);
  const auto step = [&](bool right) {
    world.Draft({a.get()}, 1);
    const double before = a->draft.acceptance;
    const int32_t id = right ? a->draft.ids[0] : (a->draft.ids[0] + 1) % kVocab;
    a->draft.ids.clear();
    a->tokens.push_back(id);
    world.drafter->Sampled(*a, 1);
    return before;
  };
  double last = 0;
  for (int i = 0; i < 30; ++i) last = step(true);
  EXPECT_GT(last, 0.9);
  for (int i = 0; i < 40; ++i) last = step(false);
  EXPECT_LT(last, 0.1);
}

}  // namespace
}  // namespace ingot::rollout
