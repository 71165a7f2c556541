// Every border of a layer is at its place: two ranks that divide the experts, the context or the heads compute what one
// does, forward and backward. The ranks are threads that exchange tensors through a shared place.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>

#include <array>
#include <barrier>
#include <cmath>
#include <functional>
#include <memory>
#include <thread>

#include "kernels/torch/tree_attention.h"
#include "model/communicator.h"
#include "model/goldens.h"
#include "model/plain_model.h"
#include "test_paths.h"

namespace ingot::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// Where two ranks meet: each puts a tensor and takes the other's.
struct Meeting {
  std::barrier<> both{2};
  at::Tensor places[2];

  at::Tensor Swap(int rank, const at::Tensor& own) {
    places[rank] = own;
    both.arrive_and_wait();
    at::Tensor other = places[1 - rank];
    both.arrive_and_wait();
    return other;
  }
  at::Tensor Add(int rank, const at::Tensor& own) {
    const at::Tensor other = Swap(rank, own);
    return rank == 0 ? own + other : other + own;
  }
};

// One of two ranks on one axis.
struct Rank final : Communicator {
  Rank(Axis axis, int rank, Meeting& meeting) : axis_(axis), rank_(rank), meeting_(meeting) {}

  // What a border does, forward and backward.
  struct Border {
    std::function<at::Tensor(const at::Tensor&)> forward, backward;
  };
  struct Cross : Function<Cross> {
    static at::Tensor forward(AutogradContext* context, const at::Tensor& x, int64_t border) {
      const at::NoGradGuard no_grad;
      context->saved_data["border"] = border;
      return reinterpret_cast<const Border*>(border)->forward(x).clone();
    }
    static variable_list backward(AutogradContext* context, const variable_list& grads) {
      const auto* border = reinterpret_cast<const Border*>(context->saved_data["border"].toInt());
      return {border->backward(grads[0].contiguous()), at::Tensor()};
    }
  };
  at::Tensor Through(Axis axis, const at::Tensor& x, Border border) {
    if (axis != axis_) return x;
    if (!x.requires_grad()) return border.forward(x);
    borders_.push_back(std::make_unique<Border>(std::move(border)));
    return Cross::apply(x, reinterpret_cast<int64_t>(borders_.back().get()));
  }

  int size(Axis axis) const override { return axis == axis_ ? 2 : 1; }
  int rank(Axis axis) const override { return axis == axis_ ? rank_ : 0; }
  at::Tensor Enter(Axis axis, const at::Tensor& x) override {
    return Through(axis, x, {[](const at::Tensor& t) { return t; }, [this](const at::Tensor& g) { return Sum(g); }});
  }
  at::Tensor Sum(Axis axis, const at::Tensor& x) override {
    return Through(axis, x, {[this](const at::Tensor& t) { return Sum(t); }, [](const at::Tensor& g) { return g; }});
  }
  at::Tensor Gather(Axis axis, const at::Tensor& x, int64_t dim) override {
    const int64_t own = x.size(dim);
    const auto join = [this, dim](const at::Tensor& t) {
      const at::Tensor other = meeting_.Swap(rank_, t);
      return rank_ == 0 ? at::cat({t, other}, dim) : at::cat({other, t}, dim);
    };
    const auto slice = [this, dim, own](const at::Tensor& g) {
      return Sum(g).narrow(dim, rank_ == 0 ? 0 : g.size(dim) - own, own).contiguous();
    };
    return Through(axis, x, {join, slice});
  }
  at::Tensor Exchange(Axis axis, const at::Tensor& x, const at::Tensor& counts, at::Tensor* received) override {
    *received = counts;
    if (axis != axis_) return x;
    const at::Tensor theirs = meeting_.Swap(rank_, counts);
    *received = rank_ == 0 ? at::stack({counts[0], theirs[0]}) : at::stack({theirs[1], counts[1]});
    const at::Tensor back = *received;
    return Through(axis, x,
                   {[this, counts](const at::Tensor& t) { return Send(t, counts); },
                    [this, back](const at::Tensor& g) { return Send(g, back); }});
  }

 private:
  at::Tensor Sum(const at::Tensor& x) { return meeting_.Add(rank_, x); }
  // Rows for rank 0, then for rank 1, against those from rank 0, then from rank 1.
  at::Tensor Send(const at::Tensor& x, const at::Tensor& counts) {
    const int64_t first = counts[0].item<int64_t>(), second = counts[1].item<int64_t>();
    const at::Tensor parts[2] = {x.narrow(0, 0, first), x.narrow(0, first, second)};
    const at::Tensor other = meeting_.Swap(rank_, parts[1 - rank_]);
    return rank_ == 0 ? at::cat({parts[0], other}) : at::cat({other, parts[1]});
  }

  const Axis axis_;
  const int rank_;
  Meeting& meeting_;
  std::vector<std::unique_ptr<Border>> borders_;  // as long as the graph
};

// Rows [begin, begin + n) of a sequence against its keys.
class Slice : public AttentionBackend {
 public:
  explicit Slice(int64_t begin) : begin_(begin) {}
  at::Tensor Attend(int64_t, const AttentionInput& input) override {
    kernels::TreeAttentionOptions options;
    options.scale = input.spec.scale;
    options.q_offset = begin_;
    options.sinks = input.sinks;
    options.window = input.spec.window;
    options.soft_cap = input.spec.soft_cap;
    return kernels::TreeAttention(input.q, input.k, input.v, options);
  }

 private:
  const int64_t begin_;
};

using Tensors = std::map<std::string, at::Tensor>;

// One layer on one rank, forward and backward.
struct LayerRun {
  at::Tensor result, grad_x, balance;
  Tensors grads;

  LayerRun() = default;
  LayerRun(const ModelConfig& config, const LayerSpec& spec, const Tensors& tensors, const at::Tensor& rows,
           int64_t begin, const at::Tensor& mix, Communicator& communicator) {
    at::set_num_threads(1);
    Tensors leaves;
    for (const auto& [name, t] : tensors) leaves[name] = t.detach().clone().requires_grad_(t.is_floating_point());
    const Block block(kLayer, spec, config.rms_norm_eps, leaves);
    const RopeTables rope(config, at::dtype(at::kDouble));
    Slice attention(begin);
    Aux aux;
    aux.balance = 0.7;
    const at::Tensor x = rows.detach().clone().requires_grad_(true);
    const at::Tensor positions = at::arange(begin, begin + rows.size(0), at::kLong);
    const at::Tensor y = block.Forward(x, positions, rope, attention, communicator, &aux);
    at::Tensor loss = (y * mix).sum();
    if (aux.balance_loss.defined()) loss = loss + aux.balance_loss, balance = aux.balance_loss.detach();
    loss.backward();
    result = y.detach();
    grad_x = x.grad();
    for (auto& [name, t] : leaves) {
      if (t.requires_grad()) grads[name] = t.grad().defined() ? t.grad() : at::zeros_like(t);
    }
  }
  static constexpr int64_t kLayer = 1;
};

struct Layer {
  explicit Layer(const std::string& name)
      : config(*ModelConfig::FromFile(INGOT_SOURCE_DIR "/tests/model/testdata/" + name + "/config.json")) {
    spec = SpecOf(config).layers[LayerRun::kLayer];
    const Parameters all = testing::RandomParameters(config, 5, at::kDouble);
    for (const TensorSpec& t : spec.tensors) tensors[t.name] = all.at(t.name);
    at::manual_seed(7);
    x = at::randn({kRows, config.hidden_size}, at::kDouble);
    mix = at::randn({kRows, config.hidden_size}, at::kDouble);
  }
  static constexpr int64_t kRows = 24;
  ModelConfig config;
  LayerSpec spec;
  Tensors tensors;
  at::Tensor x, mix;
};

// Runs `make(rank, communicator)` of both ranks at once.
std::array<LayerRun, 2> RunBoth(Axis axis, const std::function<LayerRun(int, Communicator&)>& make) {
  Meeting meeting;
  Rank ranks[2] = {{axis, 0, meeting}, {axis, 1, meeting}};
  std::array<LayerRun, 2> runs;
  std::thread other([&] { runs[1] = make(1, ranks[1]); });
  runs[0] = make(0, ranks[0]);
  other.join();
  return runs;
}

void ExpectNear(const at::Tensor& a, const at::Tensor& b, const std::string& what) {
  ASSERT_EQ(a.sizes(), b.sizes()) << what;
  EXPECT_LT((a - b).norm().item<double>(), 1e-11 * (1 + b.norm().item<double>())) << what;
}

class ExpertBorder : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(, ExpertBorder,
                         ::testing::Values("qwen3_moe", "glm4_moe", "minimax_m2", "gpt_oss", "deepseek_v3",
                                           "qwen3_next"));

// Each rank has a sequence of its own and half of the experts; the other half is not a number there.
TEST_P(ExpertBorder, ExpertsOfTwoRanksAreThoseOfOne) {
  const Layer layer(GetParam());
  for (const int64_t cut : {int64_t{11}, Layer::kRows - 1}) {  // the second: one row on rank 1
    const int64_t begins[] = {0, cut}, counts[] = {cut, Layer::kRows - cut};
    const auto rows = [&](const at::Tensor& t, int r) { return t.narrow(0, begins[r], counts[r]); };
    const int64_t half = layer.config.experts.count / 2;
    const auto here = [&](const TensorSpec& t, int r) { return t.expert < 0 || t.expert / half == r; };
    const std::array<LayerRun, 2> ranks = RunBoth(Axis::kExpert, [&](int r, Communicator& communicator) {
      Tensors own = layer.tensors;
      for (const TensorSpec& t : layer.spec.tensors) {
        if (!here(t, r)) own[t.name] = at::full_like(own[t.name], NAN);
      }
      return LayerRun(layer.config, layer.spec, own, rows(layer.x, r), 0, rows(layer.mix, r), communicator);
    });
    LayerRun alone[2];
    for (int r = 0; r < 2; ++r) {
      alone[r] = LayerRun(layer.config, layer.spec, layer.tensors, rows(layer.x, r), 0, rows(layer.mix, r),
                          Communicator::Alone());
      EXPECT_TRUE(at::equal(ranks[r].result, alone[r].result)) << r;
      ExpectNear(ranks[r].grad_x, alone[r].grad_x, "x");
    }
    for (const TensorSpec& t : layer.spec.tensors) {
      const at::Tensor both = alone[0].grads[t.name] + alone[1].grads[t.name];
      for (int r = 0; r < 2; ++r) {
        if (t.expert < 0) ExpectNear(ranks[r].grads.at(t.name), alone[r].grads[t.name], t.name);
        if (t.expert >= 0 && here(t, r)) ExpectNear(ranks[r].grads.at(t.name), both, t.name);
        if (!here(t, r)) {
          EXPECT_EQ(ranks[r].grads.at(t.name).norm().item<double>(), 0) << t.name;
        }
      }
    }
  }
}

class ContextBorder : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(, ContextBorder,
                         ::testing::Values("qwen3", "mistral_window", "gemma2", "gpt_oss", "deepseek_v3",
                                           "qwen3_next"));

// One sequence, of which each rank has a part.
TEST_P(ContextBorder, ADividedContextIsTheWholeOne) {
  const Layer layer(GetParam());
  constexpr int64_t kCut = 10;
  const int64_t begins[] = {0, kCut}, counts[] = {kCut, Layer::kRows - kCut};
  const auto rows = [&](const at::Tensor& t, int r) { return t.narrow(0, begins[r], counts[r]); };
  const LayerRun whole(layer.config, layer.spec, layer.tensors, layer.x, 0, layer.mix, Communicator::Alone());
  const std::array<LayerRun, 2> ranks = RunBoth(Axis::kContext, [&](int r, Communicator& communicator) {
    return LayerRun(layer.config, layer.spec, layer.tensors, rows(layer.x, r), begins[r], rows(layer.mix, r),
                    communicator);
  });
  for (int r = 0; r < 2; ++r) {
    ExpectNear(ranks[r].result, rows(whole.result, r), "result");
    ExpectNear(ranks[r].grad_x, rows(whole.grad_x, r), "x");
    ASSERT_EQ(whole.balance.defined(), layer.config.experts.count > 0);
    if (whole.balance.defined()) ExpectNear(ranks[r].balance, whole.balance, "balance");
  }
  for (const auto& [name, grad] : whole.grads)
    ExpectNear(ranks[0].grads.at(name) + ranks[1].grads.at(name), grad, name);
}

class TensorBorder : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(, TensorBorder,
                         ::testing::Values("qwen3", "gemma3", "qwen3_moe", "glm4_moe", "minimax_m2", "gpt_oss",
                                           "deepseek_v3", "qwen3_next"));

// Each rank has half of the heads, and half of the width of every feed-forward part. MiniMax-M2's norm is over all heads.
TEST_P(TensorBorder, HeadsAndWidthsOfTwoRanksAreThoseOfOne) {
  const Layer layer(GetParam());
  const auto own = [](const TensorSpec& t, const at::Tensor& whole, int r) {
    return t.shard == Shard::kNone ? whole : whole.chunk(2, static_cast<int64_t>(t.shard))[static_cast<size_t>(r)];
  };
  LayerSpec half = layer.spec;
  half.attention.heads /= 2;
  if (!half.attention.keys_are_values()) half.attention.kv_heads /= 2;
  const LayerRun whole(layer.config, layer.spec, layer.tensors, layer.x, 0, layer.mix, Communicator::Alone());
  const std::array<LayerRun, 2> ranks = RunBoth(Axis::kTensor, [&](int r, Communicator& communicator) {
    Tensors mine;
    for (const TensorSpec& t : layer.spec.tensors) mine[t.name] = own(t, layer.tensors.at(t.name), r);
    return LayerRun(layer.config, half, mine, layer.x, 0, layer.mix, communicator);
  });
  for (int r = 0; r < 2; ++r) {
    ExpectNear(ranks[r].result, whole.result, "result");
    ExpectNear(ranks[r].grad_x, whole.grad_x, "x");
    for (const TensorSpec& t : layer.spec.tensors) {
      // A bias that is added once has its gradient on rank 0.
      const bool once = t.part == Part::kOutputBias || t.part == Part::kExpertDownBias;
      const at::Tensor grad = own(t, whole.grads.at(t.name), r);
      ExpectNear(ranks[r].grads.at(t.name), once && r == 1 ? at::zeros_like(grad) : grad, t.name);
    }
  }
}

// A recurrence has no border yet, and says so.
TEST(RecurrentBorder, DividedHeadsAndRowsAreRejected) {
  const ModelConfig config = *ModelConfig::FromFile(testing::GoldenData("qwen3_next") + "/config.json");
  const LayerSpec spec = SpecOf(config).layers[0];
  ASSERT_TRUE(spec.recurrence.exists());
  const Parameters parameters = testing::RandomParameters(config, 5, at::kDouble);
  const Block block(0, spec, config.rms_norm_eps, parameters.tensors());
  const RopeTables rope(config, at::dtype(at::kDouble));
  Slice attention(0);
  const at::Tensor x = at::randn({4, config.hidden_size}, at::kDouble);
  for (const Axis axis : {Axis::kTensor, Axis::kContext}) {
    Meeting meeting;
    Rank rank(axis, 0, meeting);
    try {
      block.Forward(x, at::arange(4, at::kLong), rope, attention, rank, nullptr);
      FAIL() << "ran";
    } catch (const c10::Error& error) {
      EXPECT_NE(std::string(error.what()).find("layer 0 is recurrent: its heads and rows cannot be divided"),
                std::string::npos);
    }
  }
  try {  // and a backend that only attends
    block.Forward(x, at::arange(4, at::kLong), rope, attention, Communicator::Alone(), nullptr);
    FAIL() << "ran";
  } catch (const c10::Error& error) {
    EXPECT_NE(std::string(error.what()).find("computes only attention"), std::string::npos);
  }
}

}  // namespace
}  // namespace ingot::model
