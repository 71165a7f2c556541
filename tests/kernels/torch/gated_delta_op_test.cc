// Gated DeltaNet along trees: by its definition in plain torch operators with autograd, and bit for bit whatever the
// call's shape.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/torch/gated_delta.h"
#include "kernels/torch/threads.h"

namespace ingot::kernels {
namespace {

constexpr DeltaShape kShape = {.key_heads = 2, .value_heads = 6, .key_dim = 5, .value_dim = 7, .kernel = 4};

DeltaInput RandomInput(int64_t rows, at::ScalarType type, uint64_t seed = 3) {
  at::manual_seed(seed);
  const auto draw = [&](at::IntArrayRef sizes) { return at::randn(sizes, at::kDouble).to(type); };
  return {.x = draw({rows, kShape.channels()}),
          .step = draw({rows, kShape.value_heads}),
          .rate = draw({rows, kShape.value_heads}),
          .convolution = draw({kShape.channels(), 1, kShape.kernel}),
          .step_bias = draw({kShape.value_heads}),
          .decay = draw({kShape.value_heads}) - 1};
}

std::vector<at::Tensor*> Tensors(DeltaInput& in) {
  return {&in.x, &in.step, &in.rate, &in.convolution, &in.step_bias, &in.decay};
}

DeltaInput Rows(const DeltaInput& in, const std::vector<int64_t>& rows) {
  const at::Tensor index = at::tensor(rows, at::kLong);
  DeltaInput out = in;
  for (at::Tensor* t : {&out.x, &out.step, &out.rate}) *t = t->index_select(0, index);
  return out;
}

// One sequence by the definition.
at::Tensor Reference(const DeltaInput& in) {
  const int64_t rows = in.x.size(0), keys = kShape.keys();
  const at::Tensor padded = at::cat({at::zeros({kShape.kernel - 1, kShape.channels()}, in.x.options()), in.x});
  at::Tensor u = at::zeros_like(in.x);
  for (int64_t j = 0; j < kShape.kernel; ++j)
    u = u + padded.narrow(0, j, rows) * in.convolution.select(2, j).squeeze(1);
  u = u * at::sigmoid(u);
  const auto unit = [](const at::Tensor& x) { return x * (x.square().sum(-1, true) + 1e-6).rsqrt(); };
  const at::Tensor q = unit(u.narrow(1, 0, keys).reshape({rows, kShape.key_heads, kShape.key_dim}))
                           .repeat_interleave(kShape.sharing(), 1) /
                       std::sqrt(static_cast<double>(kShape.key_dim));
  const at::Tensor k = unit(u.narrow(1, keys, keys).reshape({rows, kShape.key_heads, kShape.key_dim}))
                           .repeat_interleave(kShape.sharing(), 1);
  const at::Tensor v = u.narrow(1, 2 * keys, kShape.values()).reshape({rows, kShape.value_heads, kShape.value_dim});
  const at::Tensor decay = (-in.decay.exp() * at::softplus(in.step + in.step_bias)).exp(), rate = at::sigmoid(in.rate);
  at::Tensor state = at::zeros({kShape.value_heads, kShape.key_dim, kShape.value_dim}, in.x.options());
  std::vector<at::Tensor> out;
  for (int64_t t = 0; t < rows; ++t) {
    state = state * decay[t].view({-1, 1, 1});
    const at::Tensor wrong = v[t] - at::einsum("hij,hi->hj", {state, k[t]});
    state = state + at::einsum("hi,hj->hij", {k[t], wrong * rate[t].unsqueeze(1)});
    out.push_back(at::einsum("hij,hi->hj", {state, q[t]}));
  }
  return at::stack(out);
}

// A tree of 90 rows: a trunk longer than a chunk, forks at several depths, two of them nested, and a second root.
std::vector<int32_t> Tree() {
  std::vector<int32_t> parents;
  const auto chain = [&](int32_t parent, int rows) {
    for (int i = 0; i < rows; ++i) parents.push_back(i == 0 ? parent : static_cast<int32_t>(parents.size()) - 1);
  };
  chain(kNoParent, 45);
  chain(40, 5);         // 45
  chain(47, 3);         // 50, below the branch before
  chain(40, 2);         // 53, beside it
  chain(17, 9);         // 55
  chain(1, 1);          // 64: a fork within the convolution's sight of the root
  chain(0, 12);         // 65
  chain(kNoParent, 8);  // 77
  chain(78, 5);         // 85
  return parents;
}

std::vector<int64_t> PathTo(const std::vector<int32_t>& parents, int32_t row) {
  std::vector<int64_t> path;
  for (; row >= 0; row = parents[static_cast<size_t>(row)]) path.insert(path.begin(), row);
  return path;
}

double Gap(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).norm() / b.norm().clamp_min(1e-30)).item<double>();
}

TEST(GatedDelta, EqualsTheDefinitionOnEveryPathOfATree) {
  const std::vector<int32_t> parents = Tree();
  const DeltaInput in = RandomInput(std::ssize(parents), at::kDouble);
  const at::Tensor out = GatedDelta(kShape, in, parents);
  for (const int32_t leaf : {44, 49, 52, 54, 63, 64, 76, 84, 89}) {
    const std::vector<int64_t> path = PathTo(parents, leaf);
    const at::Tensor expected = Reference(Rows(in, path));
    EXPECT_LT(Gap(out.index_select(0, at::tensor(path, at::kLong)), expected), 1e-13) << leaf;
  }
}

TEST(GatedDelta, GradientsAreTheSumOverThePathsOfATree) {
  const std::vector<int32_t> parents = Tree();
  DeltaInput in = RandomInput(std::ssize(parents), at::kDouble);
  const at::Tensor weight = at::randn({std::ssize(parents), kShape.value_heads, kShape.value_dim}, at::kDouble);
  for (at::Tensor* t : Tensors(in)) t->requires_grad_(true);
  // Every row counts once, on the first path that has it.
  at::Tensor loss = at::zeros({}, at::kDouble);
  std::vector<bool> counted(parents.size(), false);
  for (const int32_t leaf : {44, 49, 52, 54, 63, 64, 76, 84, 89}) {
    const std::vector<int64_t> path = PathTo(parents, leaf);
    const at::Tensor out = Reference(Rows(in, path));
    for (size_t i = 0; i < path.size(); ++i) {
      const auto row = static_cast<size_t>(path[i]);
      if (!counted[row]) loss = loss + (out[static_cast<int64_t>(i)] * weight[path[i]]).sum();
      counted[row] = true;
    }
  }
  ASSERT_EQ(std::count(counted.begin(), counted.end(), true), std::ssize(parents));
  loss.backward();
  std::vector<at::Tensor> expected;
  for (at::Tensor* t : Tensors(in)) {
    expected.push_back(t->grad().clone());
    t->mutable_grad().reset();
  }
  (GatedDelta(kShape, in, parents) * weight).sum().backward();
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_LT(Gap(Tensors(in)[i]->grad(), expected[i]), 1e-12) << i;
}

// A row's bits are those of its own sequence, run alone, in one call or row by row, with the state handed on.
TEST(GatedDelta, ARowHasTheBitsOfItsOwnSequence) {
  const std::vector<int32_t> parents = Tree();
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16}) {
    const DeltaInput in = RandomInput(std::ssize(parents), type);
    const at::Tensor out = GatedDeltaForward(kShape, in, parents, {}, {}, {});
    for (const int32_t leaf : {44, 52, 64, 76, 89}) {
      const std::vector<int64_t> path = PathTo(parents, leaf);
      const at::Tensor expected = out.index_select(0, at::tensor(path, at::kLong));
      for (const int64_t step : {int64_t{1000}, int64_t{7}, int64_t{1}}) {
        DeltaStates states = NewDeltaStates(kShape, 3, in.x.options());
        for (int64_t begin = 0; begin < std::ssize(path); begin += step) {
          const int64_t end = std::min<int64_t>(begin + step, std::ssize(path));
          std::vector<int32_t> follow{begin == 0 ? kNoParent : FromState(2)};
          while (std::ssize(follow) < end - begin) follow.push_back(static_cast<int32_t>(follow.size()) - 1);
          const std::vector<KeptState> kept = {{static_cast<int32_t>(end - begin - 1), 2}};
          const at::Tensor piece = GatedDeltaForward(kShape, Rows(in, {path.begin() + begin, path.begin() + end}),
                                                     follow, states, kept, states);
          EXPECT_TRUE(at::equal(piece, expected.narrow(0, begin, end - begin))) << type << " " << leaf << " " << step;
        }
      }
    }
  }
}

TEST(GatedDelta, TheThreadsChangeNoBit) {
  const std::vector<int32_t> parents = Tree();
  DeltaInput in = RandomInput(std::ssize(parents), at::kFloat);
  const at::Tensor by_out = at::randn({std::ssize(parents), kShape.value_heads, kShape.value_dim});
  UseThreads(1);
  const at::Tensor out = GatedDeltaForward(kShape, in, parents, {}, {}, {});
  DeltaInput by = GatedDeltaBackward(kShape, in, parents, {}, {}, by_out, {}, {});
  UseThreads(3);
  EXPECT_TRUE(at::equal(GatedDeltaForward(kShape, in, parents, {}, {}, {}), out));
  DeltaInput again = GatedDeltaBackward(kShape, in, parents, {}, {}, by_out, {}, {});
  for (size_t i = 0; i < Tensors(by).size(); ++i) EXPECT_TRUE(at::equal(*Tensors(again)[i], *Tensors(by)[i])) << i;
}

// Two calls with the states of rows 40 and 17 handed from the first to the second, and their gradients handed back.
TEST(GatedDelta, GradientsPassThroughHandedStates) {
  const std::vector<int32_t> all = Tree();
  const int32_t rows = 64, cut = 45;  // the second root's rows are left out
  const std::vector<int32_t> parents(all.begin(), all.begin() + rows);
  const DeltaInput in = RandomInput(rows, at::kDouble);
  const at::Tensor by_out = at::randn({rows, kShape.value_heads, kShape.value_dim}, at::kDouble);
  DeltaInput expected = GatedDeltaBackward(kShape, in, parents, {}, {}, by_out, {}, {});
  std::vector<int64_t> before(cut), after(rows - cut);
  for (int32_t row = 0; row < rows; ++row) (row < cut ? before[size_t(row)] : after[size_t(row - cut)]) = row;
  const DeltaInput one = Rows(in, before), two = Rows(in, after);
  const std::vector<int32_t> first(parents.begin(), parents.begin() + cut);
  std::vector<int32_t> second;
  for (int32_t row = cut; row < rows; ++row) {
    const int32_t parent = parents[size_t(row)];
    second.push_back(parent == 40 ? FromState(1) : parent == 17 ? FromState(0) : parent - cut);
  }
  const std::vector<KeptState> kept = {{17, 0}, {40, 1}};
  const DeltaStates states = NewDeltaStates(kShape, 2, in.x.options());
  const at::Tensor out = GatedDeltaForward(kShape, in, parents, {}, {}, {});
  EXPECT_TRUE(at::equal(GatedDeltaForward(kShape, one, first, {}, kept, states), out.narrow(0, 0, cut)));
  EXPECT_TRUE(at::equal(GatedDeltaForward(kShape, two, second, states, {}, {}), out.narrow(0, cut, rows - cut)));
  const DeltaStates by_states = NewDeltaStates(kShape, 2, in.x.options());
  DeltaInput by_two =
      GatedDeltaBackward(kShape, two, second, states, {}, by_out.narrow(0, cut, rows - cut), {}, by_states);
  DeltaInput by_one = GatedDeltaBackward(kShape, one, first, {}, kept, by_out.narrow(0, 0, cut), by_states, {});
  EXPECT_LT(Gap(at::cat({by_one.x, by_two.x}), expected.x), 1e-13);
  EXPECT_LT(Gap(at::cat({by_one.step, by_two.step}), expected.step), 1e-13);
  EXPECT_LT(Gap(at::cat({by_one.rate, by_two.rate}), expected.rate), 1e-13);
  for (size_t i = 3; i < 6; ++i)
    EXPECT_LT(Gap(*Tensors(by_one)[i] + *Tensors(by_two)[i], *Tensors(expected)[i]), 1e-13);
}

TEST(GatedDelta, RowsInNoOrderOfATreeAreRejected) {
  const DeltaInput in = RandomInput(4, at::kFloat);
  const auto run = [&](std::vector<int32_t> parents) { return GatedDelta(kShape, in, parents); };
  EXPECT_NO_THROW(run({kNoParent, 0, 0, kNoParent}));
  EXPECT_THROW(run({kNoParent, 1, 0, 2}), c10::Error) << "its own parent";
  EXPECT_THROW(run({kNoParent, 0, 0, 1}), c10::Error) << "back into a branch that ended";
  EXPECT_THROW(run({FromState(0), 0, 1, 2}), c10::Error) << "no state was given";
  EXPECT_THROW(run({kNoParent, 0, 1}), c10::Error);
}

TEST(ParentsOf, AStreamsRowsFollowTheirTree) {
  // a b c | d e under b | f, a root of its own
  const at::Tensor ends = at::tensor({5, 5, 3, 5, 5, 6}, at::kInt);
  EXPECT_EQ(ParentsOf(ends, 6), (std::vector<int32_t>{kNoParent, 0, 1, 1, 3, kNoParent}));
  EXPECT_EQ(ParentsOf({}, 3), (std::vector<int32_t>{kNoParent, 0, 1}));
}

}  // namespace
}  // namespace ingot::kernels
