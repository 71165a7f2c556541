// Published prediction layers in the engine: the paged cache gives what one sequence gives, and drafts change no bit.
#include "rollout/engine/mtp_runner.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "base/rng.h"
#include "model/goldens.h"
#include "model/mtp_head.h"
#include "model/sequence_attention.h"
#include "rollout/small_transformer.h"

namespace ingot::rollout::mtp_runner_test {
namespace {

constexpr int64_t kBlock = 4;

struct Published {
  explicit Published(const std::string& name)
      : folder(*model::LoadModelDir(model::testing::FolderOf(name))),
        policy(*model::Transformer::Create(folder.config, folder.parameters)),
        tensors(model::InitMtpHead(folder.config, 1, 7, at::kFloat)),
        head(*model::MtpHead::Create(tensors, policy)) {}
  model::ModelFolder folder;
  model::Transformer policy;
  model::MtpTensors tensors;
  model::MtpHead head;
};

// Plain attention over a sequence without its first row, whose key and value are zero.
class ZeroFirst final : public model::AttentionBackend {
 public:
  at::Tensor Attend(int64_t, const model::AttentionInput& input) override {
    const int64_t rows = input.q.size(0), sharing = input.spec.heads / input.spec.kv_heads;
    const at::Tensor k = input.k.repeat_interleave(sharing, 1), v = input.v.repeat_interleave(sharing, 1);
    const at::Tensor scores = at::einsum("ihd,jhd->hij", {input.q, k}) * input.spec.scale;
    const at::Tensor hidden = at::ones({rows, rows}, at::kBool).triu(1);
    const at::Tensor all = at::cat({at::zeros({input.spec.heads, rows, 1}), scores.masked_fill(hidden, -INFINITY)}, 2);
    return at::einsum("hij,jhd->ihd", {all.softmax(2).narrow(2, 1, rows), v});
  }
};

// A forward pass over positions [begin, end) of a sequence in the given blocks.
struct Pass {
  Pass(const at::Tensor& ids, int64_t begin, int64_t end, const std::vector<int32_t>& blocks) {
    kernels::AttentionSequence sequence;
    sequence.q_count = end - begin;
    sequence.q_offset = begin;
    sequence.key_count = end;
    batch.block_tables = blocks;
    sequence.block_table = batch.block_tables.data();
    batch.sequences.push_back(sequence);
    for (int64_t at = begin; at < end; ++at) {
      batch.token_ids.push_back(ids[at].item<int64_t>());
      batch.positions.push_back(at);
      batch.slots.push_back(blocks[static_cast<size_t>(at / kBlock)] * kBlock + at % kBlock);
    }
  }
  ForwardBatch batch;
};

class MtpRunnerTest : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(, MtpRunnerTest, ::testing::Values("glm4_moe", "deepseek_v3"));

TEST_P(MtpRunnerTest, PiecesInPagesGiveWhatOneSequenceGives) {
  const c10::InferenceMode no_autograd;
  const Published model(GetParam());
  constexpr int64_t kRows = 19;
  const at::Tensor ids = at::randint(0, model.folder.config.vocab_size, {kRows}, at::kLong);
  const at::Tensor positions = at::arange(kRows, at::kLong);
  model::SequenceAttention causal;
  const at::Tensor hidden = model.policy.Hidden(ids, positions, causal);
  const auto tail = [](const at::Tensor& t) { return t.narrow(0, 1, t.size(0) - 1); };
  ZeroFirst zero_first;
  const at::Tensor expected =
      model.head.Hidden(0, hidden.narrow(0, 0, kRows - 1), tail(ids), tail(positions), zero_first);

  MtpRunner runner(model.folder.config, 16, kBlock, at::kCPU);
  const std::vector<int32_t> blocks = {9, 2, 14, 0, 5}, others = {1, 3, 4, 6, 7};
  const at::Tensor other_ids = at::flip(ids, {0});
  model::SequenceAttention of_other;
  const at::Tensor other = model.policy.Hidden(other_ids, positions, of_other);
  for (const auto& [begin, end] : std::vector<std::pair<int64_t, int64_t>>{{0, 1}, {1, 6}, {6, 7}, {7, 17}}) {
    runner.Follow(model.head, Pass(ids, begin, end, blocks).batch, hidden.narrow(0, begin, end - begin));
    runner.Follow(model.head, Pass(other_ids, begin, end, others).batch, other.narrow(0, begin, end - begin));
  }
  // Drafts for positions 17 and 18, one after the other; the state of the second is the policy's here.
  for (const int64_t at : {int64_t{17}, int64_t{18}}) {
    DraftBatch draft;
    draft.token_ids = {ids[at].item<int64_t>()};
    draft.positions = {at};
    draft.tables = {2};
    draft.block_tables = {0, 0};
    draft.block_tables.insert(draft.block_tables.end(), blocks.begin(), blocks.end());
    const at::Tensor row = runner.Draft(model.head, draft, hidden.narrow(0, at - 1, 1));
    EXPECT_LT((row[0] - expected[at - 1]).abs().max().item<double>(), 1e-4) << at;
  }
  EXPECT_GT(expected.abs().max().item<double>(), 0.5);
}

std::shared_ptr<const weights::Snapshot> WeightsOf(const Published& model, int64_t version, bool with_layers) {
  std::map<std::string, at::Tensor> tensors = model.folder.parameters.tensors();
  if (with_layers) tensors.merge(model::MtpDraft(model.folder.config, model.tensors));
  std::vector<weights::TensorView> views;
  for (auto& [name, tensor] : tensors) {
    if (tensor.dim() == 2) tensor = tensor * (3 + 0.1 * static_cast<double>(version));
    views.push_back(
        {name, "F32", tensor.sizes().vec(), {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()}});
    if (name.starts_with(model::kDraftPrefix)) views.back().role = v1::TENSOR_DRAFT;
  }
  return *weights::Snapshot::Copy(version, views);
}

std::vector<v1::GenerateRequest> Requests(int64_t vocab_size) {
  std::vector<v1::GenerateRequest> asks;
  for (uint64_t i = 0; i < 24; ++i) {
    v1::GenerateRequest& ask = asks.emplace_back();
    ask.set_request_id(std::to_string(i));
    const uint64_t shared = i % 3;  // some prompts begin alike
    for (uint64_t j = 0; j < 5 + i; ++j) {
      ask.add_prompt_ids(static_cast<int32_t>(base::DeriveSeed(shared, j) % static_cast<uint64_t>(vocab_size)));
    }
    ask.mutable_sampling()->set_temperature(i % 4 == 0 ? 0 : 0.8f);
    ask.mutable_sampling()->set_seed(i);
    ask.mutable_sampling()->set_max_new_tokens(static_cast<int32_t>(10 + 3 * i));
    ask.set_pinned_version(-1);
  }
  return asks;
}

// In little memory, so that requests are preempted; the second update comes without the layer.
TEST_P(MtpRunnerTest, DraftsChangeNoBit) {
  const Published model(GetParam());
  const auto run = [&](const std::vector<std::string>& drafters, int64_t* accepted) {
    EngineOptions options;
    options.kv_block_tokens = kBlock;
    options.kv_cache_tokens = 400;
    options.max_running = 6;
    options.max_batch_tokens = 24;
    options.context_length = 200;
    options.speculation.drafters = drafters;
    options.speculation.min_gain = -1;
    Engine::Parts parts;
    parts.runner = *NewTorchRunner(model.folder.config, options, "cpu");
    auto engine = *Engine::Create(options, std::move(parts), WeightsOf(model, 1, true));
    std::vector<Outcome> outcomes = Outcomes(*engine, Requests(model.folder.config.vocab_size));
    EXPECT_TRUE(engine->Update(*weights::Encode(nullptr, *WeightsOf(model, 2, false), false)).ok());
    const auto later = Outcomes(*engine, Requests(model.folder.config.vocab_size));
    outcomes.insert(outcomes.end(), later.begin(), later.end());
    const v1::EngineStatusResponse status = *engine->Status();
    for (const v1::DrafterStatus& drafter : status.drafters()) {
      *accepted += drafter.accepted();
      EXPECT_GT(drafter.drafted(), 100) << drafter.name();
    }
    return outcomes;
  };
  int64_t accepted = 0, none = 0;
  const std::vector<Outcome> with = run({"mtp"}, &accepted), without = run({}, &none);
  ASSERT_EQ(with.size(), without.size());
  for (size_t i = 0; i < with.size(); ++i) {
    EXPECT_TRUE(with[i].status.ok()) << with[i].status;
    EXPECT_TRUE(with[i] == without[i]) << i;
  }
  EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace ingot::rollout::mtp_runner_test
