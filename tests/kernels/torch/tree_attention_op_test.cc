#include "kernels/torch/tree_attention.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/library.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "kernels/attention/attention_reference.h"
#include "kernels/torch/threads.h"
#include "kernels/torch/tree_attention_ops.h"

namespace ingot::kernels {
namespace {

at::Tensor VisibleEnd(std::vector<int32_t> values) { return at::tensor(values, at::kInt); }

TEST(TreeAttentionOp, IsRegisteredWithTheDispatcherAndDifferentiable) {
  std::mt19937_64 rng(1);
  const auto op = c10::Dispatcher::singleton().findSchema({"ingot::tree_attention", ""});
  ASSERT_TRUE(op.has_value());
  const at::Tensor q = at::randn({40, 4, 8}, at::kDouble).requires_grad_(true),
                   k = at::randn({40, 2, 8}, at::kDouble).requires_grad_(true),
                   v = at::randn({40, 2, 8}, at::kDouble).requires_grad_(true),
                   mix = at::randn({40, 4, 8}, at::kDouble);
  const at::Tensor end = VisibleEnd(testing::RandomForest(rng, 40, 0.2, 0.05));
  const at::Tensor out =
      op->typed<TreeAttentionSignature>().call(q, k, v, 0.4, end, std::nullopt, {}, {}, {}, {}, 0, 0.0, {});
  EXPECT_TRUE(at::equal(out, TreeAttention(q, k, v, end, 0.4)));
  (out * mix).sum().backward();

  const at::Tensor q2 = q.detach().clone().requires_grad_(true), k2 = k.detach().clone().requires_grad_(true),
                   v2 = v.detach().clone().requires_grad_(true);
  const at::Tensor i = at::arange(40).unsqueeze(1), j = at::arange(40).unsqueeze(0);
  const at::Tensor hidden = (j > i).logical_or(end.unsqueeze(0) <= i);
  const at::Tensor s = at::einsum("ihd,jhd->hij", {q2, k2.repeat_interleave(2, 1)}) * 0.4;
  const at::Tensor p = s.masked_fill(hidden.unsqueeze(0), -INFINITY).softmax(-1);
  const at::Tensor want = at::einsum("hij,jhd->ihd", {p, v2.repeat_interleave(2, 1)});
  (want * mix).sum().backward();
  EXPECT_LT((out - want).abs().max().item<double>(), 1e-13);
  EXPECT_LT((q.grad() - q2.grad()).abs().max().item<double>(), 1e-12);
  EXPECT_LT((k.grad() - k2.grad()).abs().max().item<double>(), 1e-12);
  EXPECT_LT((v.grad() - v2.grad()).abs().max().item<double>(), 1e-12);
}

TEST(TreeAttentionOp, TakesSlicesAndHalfPrecision) {
  const at::Tensor fused = at::randn({30, 3, 16});
  const at::Tensor q = fused.narrow(1, 0, 1), k = fused.narrow(1, 1, 1), v = fused.narrow(1, 2, 1);
  const at::Tensor want = TreeAttention(q.contiguous(), k.contiguous(), v.contiguous(), {}, 0.25);
  EXPECT_TRUE(at::equal(TreeAttention(q, k, v, {}, 0.25), want));
  const at::Tensor half = TreeAttention(q.to(at::kBFloat16), k.to(at::kBFloat16), v.to(at::kBFloat16), {}, 0.25);
  EXPECT_EQ(half.scalar_type(), at::kBFloat16);
  EXPECT_LT((half.to(at::kFloat) - want).abs().max().item<double>(), 0.05);
}

// A thread configures its tile registers, and torch's bf16 products set their own configuration on the same threads.
TEST(TreeAttentionOp, AndTorchsProductsDoNotDisturbEachOther) {
  const at::Tensor q = at::randn({200, 4, 64}).to(at::kBFloat16), k = at::randn({200, 2, 64}).to(at::kBFloat16),
                   a = at::randn({300, 300}).to(at::kBFloat16), x = at::randn({77, 300}).to(at::kBFloat16);
  const at::Tensor out = TreeAttention(q, k, k, {}, 0.125), square = at::mm(a, a), y = at::linear(x, a);
  for (int round = 0; round < 3; ++round) {
    EXPECT_TRUE(at::equal(at::mm(a, a), square));
    EXPECT_TRUE(at::equal(TreeAttention(q, k, k, {}, 0.125), out));
    EXPECT_TRUE(at::equal(at::linear(x, a), y));
    EXPECT_TRUE(at::equal(TreeAttention(q.narrow(0, 0, 1), k.narrow(0, 0, 1), k.narrow(0, 0, 1), {}, 0.125),
                          out.narrow(0, 0, 1)));
  }
}

std::string ErrorOf(const std::function<void()>& f) {
  try {
    f();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "";
}

// Without a formula autograd would treat a result as constant, with a zero gradient or none.
TEST(TreeAttentionOp, FailsOnAGradientWithoutAFormula) {
  const at::Tensor q = at::randn({6, 2, 8}, at::kDouble).requires_grad_(true), k = at::randn({6, 1, 8}, at::kDouble),
                   v = at::randn({6, 1, 8}, at::kDouble);
  const auto first = [&] {
    return torch::autograd::grad({TreeAttention(q, k, v, {}, 0.4).square().sum()}, {q}, {}, std::nullopt,
                                 /*create_graph=*/true)[0];
  };
  const at::Tensor plain = torch::autograd::grad({TreeAttention(q, k, v, {}, 0.4).square().sum()}, {q})[0];
  EXPECT_TRUE(at::equal(first(), plain)) << "the first one is as ever";
  EXPECT_NE(ErrorOf([&] { first().square().sum().backward(); }).find("has no second derivative"), std::string::npos);

  const auto forward = c10::Dispatcher::singleton()
                           .findSchemaOrThrow("ingot::tree_attention_forward", "")
                           .typed<TreeAttentionForwardSignature>();
  const auto backward = c10::Dispatcher::singleton()
                            .findSchemaOrThrow("ingot::tree_attention_backward", "")
                            .typed<TreeAttentionBackwardSignature>();
  const auto [out, lse] = forward.call(q, k, v, 0.4, {}, std::nullopt, {}, {}, {}, {}, 0, 0.0, {});
  EXPECT_NE(ErrorOf([&, &o = out] { o.sum().backward(); }).find("is not differentiable"), std::string::npos);
  const auto grads = backward.call(at::ones_like(q), q, k, v, out.detach(), lse.detach(), 0.4, {}, std::nullopt, {}, {},
                                   {}, {}, 0, 0.0, {});
  EXPECT_NE(ErrorOf([&] { std::get<0>(grads).sum().backward(); }).find("has no second derivative"), std::string::npos);
  const at::NoGradGuard off;
  EXPECT_FALSE(std::get<0>(forward.call(q, k, v, 0.4, {}, std::nullopt, {}, {}, {}, {}, 0, 0.0, {})).requires_grad());
}

TEST(TreeAttentionOp, RejectsTensorsThatDoNotFit) {
  const at::Tensor q = at::zeros({5, 4, 8}), k = at::zeros({5, 2, 8});
  EXPECT_NE(ErrorOf([&] { TreeAttention(q, at::zeros({4, 2, 8}), at::zeros({4, 2, 8}), {}, 1); }), "");
  EXPECT_NE(ErrorOf([&] { TreeAttention(q, at::zeros({5, 3, 8}), at::zeros({5, 3, 8}), {}, 1); }), "");
  EXPECT_NE(ErrorOf([&] { TreeAttention(q, k, at::zeros({5, 2, 9}), {}, 1); }), "");
  EXPECT_NE(ErrorOf([&] { TreeAttention(q, k, k.to(at::kDouble), {}, 1); }), "");
  EXPECT_NE(ErrorOf([&] { TreeAttention(q, k, k, VisibleEnd({1, 2, 3}), 1); }), "");
  EXPECT_NE(ErrorOf([&] { TreeAttention(q, k, k, at::zeros({5}, at::kLong), 1); }), "");
  EXPECT_EQ(ErrorOf([&] { TreeAttention(q, k, k, {}, 1); }), "");
  EXPECT_EQ(TreeAttention(q.narrow(0, 0, 0), k.narrow(0, 0, 0), k.narrow(0, 0, 0), {}, 1).numel(), 0);
}

TEST(TreeAttentionOp, NamesADeviceWithoutAKernelInsteadOfFallingBack) {
  const at::Tensor q = at::zeros({5, 4, 8}).to_sparse();
  EXPECT_NE(ErrorOf([&] { TreeAttention(q, q, q, {}, 1); }).find("no kernel for device cpu (Sparse)"),
            std::string::npos);
}

// The chunks wait for each other: on one thread they would wait for ever.
TEST(TorchParallelFor, RunsOnAsManyThreadsAsTorchHas) {
  const int before = at::get_num_threads();
  at::set_num_threads(2);
  std::atomic<int> arrived{0};
  std::atomic<bool> together{false};
  TorchParallelFor()(2, [&](int64_t begin, int64_t end) {
    arrived += static_cast<int>(end - begin);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (arrived < 2 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    if (arrived == 2 && end - begin == 1) together = true;
  });
  EXPECT_TRUE(together);
  at::set_num_threads(before);
}

// ATen would let a thread's first kernel use the number that another thread set meanwhile.
TEST(UseThreads, HoldsForItsThreadWhateverOthersSet) {
  const int before = at::get_num_threads();
  int during = 0, after = 0;
  std::thread([&] {
    UseThreads(1);
    std::thread([] { UseThreads(2); }).join();
    TorchParallelFor()(2, [&](int64_t, int64_t) { during = at::get_num_threads(); });
    at::ones({1000}).sum();
    after = at::get_num_threads();
  }).join();
  EXPECT_EQ(during, 1);
  EXPECT_EQ(after, 1);
  UseThreads(before);
}

TEST(TreeAttentionOp, KnowsItsShapesWithoutData) {
  const auto meta = at::TensorOptions().device(at::kMeta).dtype(at::kBFloat16);
  const at::Tensor q = at::empty({5, 4, 8}, meta), k = at::empty({5, 2, 8}, meta);
  const auto [out, lse] = TreeAttentionForward(q, k, k, {}, 1);
  EXPECT_EQ(out.sizes(), q.sizes());
  EXPECT_EQ(out.scalar_type(), at::kBFloat16);
  EXPECT_EQ(lse.sizes(), at::IntArrayRef({5, 4}));
  EXPECT_EQ(lse.scalar_type(), at::kFloat);
}

// Sinks, a window over depths, a soft cap and queries that start behind a prefix, against autograd over a dense mask.
TEST(TreeAttentionOp, DifferentiatesSinksWindowSoftCapAndPrefix) {
  std::mt19937_64 rng(2);
  const int64_t keys = 60, offset = 13, rows = keys - offset;
  const std::vector<int32_t> forest = testing::RandomForest(rng, keys, 0.1, 0.02);
  const auto leaf = [](at::IntArrayRef sizes) { return at::randn(sizes, at::kDouble).requires_grad_(true); };
  const at::Tensor q = leaf({rows, 4, 8}), k = leaf({keys, 2, 8}), v = leaf({keys, 2, 8}), sinks = leaf({4}),
                   mix = at::randn({rows, 4, 8}, at::kDouble);
  TreeAttentionOptions options;
  options.scale = 0.4;
  options.visible_end = VisibleEnd(forest);
  options.positions = VisibleEnd(testing::Depths(forest));
  options.sinks = sinks;
  options.window = 9;
  options.soft_cap = 0.9;
  const at::Tensor out = TreeAttention(q, k, v, options);
  const auto got = torch::autograd::grad({(out * mix).sum()}, {q, k, v, sinks});

  const at::Tensor i = at::arange(offset, keys).unsqueeze(1), j = at::arange(keys).unsqueeze(0);
  const at::Tensor depth = options.positions;
  const at::Tensor far = (depth.slice(0, offset).unsqueeze(1) - depth.unsqueeze(0)) >= 9;
  const at::Tensor hidden = (j > i).logical_or(options.visible_end.unsqueeze(0) <= i).logical_or(far);
  at::Tensor s = at::einsum("ihd,jhd->hij", {q, k.repeat_interleave(2, 1)}) * 0.4;
  s = 0.9 * (s / 0.9).tanh();
  s = s.masked_fill(hidden.unsqueeze(0), -INFINITY);
  const at::Tensor p = at::cat({s, sinks.view({4, 1, 1}).expand({4, rows, 1})}, 2).softmax(-1).slice(2, 0, keys);
  const at::Tensor want = at::einsum("hij,jhd->ihd", {p, v.repeat_interleave(2, 1)});
  const auto expected = torch::autograd::grad({(want * mix).sum()}, {q, k, v, sinks});
  EXPECT_LT((out - want).abs().max().item<double>(), 1e-13);
  for (size_t t = 0; t < 4; ++t) EXPECT_LT((got[t] - expected[t]).abs().max().item<double>(), 1e-12);
}

// Two sequences over shuffled pages through the operator's own arguments, as Python gives them.
TEST(TreeAttentionOp, RunsARaggedBatchOverPages) {
  const at::Tensor k = at::randn({40, 2, 8}), v = at::randn({40, 2, 8}), q = at::randn({15, 4, 8});
  TreeAttentionOptions options;
  options.scale = 0.3;
  options.window = 12;
  options.block_table = at::tensor({3, 1, 0, 4, 2, 2}, at::kInt).view({2, 3});
  // 10 queries at the end of 20 keys, and 4 of 4 on page 4. Row 14 belongs to no sequence.
  options.sequences = at::tensor({0, 10, 10, 20, 0, 10, 4, 0, 4, 0}, at::kLong).view({2, 5});
  const auto pages = [](const at::Tensor& t) { return t.view({5, 8, 2, 8}); };
  const at::Tensor out = TreeAttention(q, pages(k), pages(v), options);
  const at::Tensor order = at::cat({at::arange(24, 32), at::arange(8, 16), at::arange(0, 4)});
  TreeAttentionOptions first;
  first.scale = 0.3;
  first.window = 12;
  EXPECT_TRUE(at::equal(out.slice(0, 0, 10),
                        TreeAttention(q.slice(0, 0, 10), k.index_select(0, order), v.index_select(0, order), first)));
  EXPECT_TRUE(at::equal(out.slice(0, 10, 14),
                        TreeAttention(q.slice(0, 10, 14), k.slice(0, 32, 36), v.slice(0, 32, 36), first)));
  EXPECT_TRUE(at::equal(out[14], at::zeros({4, 8})));
}

// Three sequences over shuffled pages, two of which share a page, with sinks, trees and a window; against autograd
// through gathered keys and a dense mask.
TEST(TreeAttentionOp, DifferentiatesARaggedBatchOverPages) {
  std::mt19937_64 rng(3);
  const int64_t page_size = 8, rows = 22;
  const auto leaf = [](at::IntArrayRef sizes) { return at::randn(sizes, at::kDouble).requires_grad_(true); };
  const at::Tensor q = leaf({rows, 4, 8}), k = leaf({5, page_size, 2, 8}), v = leaf({5, page_size, 2, 8}),
                   sinks = leaf({4}), mix = at::randn({rows, 4, 8}, at::kDouble);
  struct Sequence {
    int64_t q_begin, q_count, q_offset, keys;
    std::vector<int64_t> pages;
  };
  // The second shares its first page with the first. Row 21 belongs to no sequence.
  const std::vector<Sequence> all = {{0, 10, 10, 20, {3, 1, 0}}, {10, 8, 7, 15, {3, 4, 0}}, {18, 3, 0, 5, {2, 0, 0}}};
  const at::Tensor ends = at::zeros({3, 20}, at::kInt), depths = at::zeros({3, 20}, at::kInt);
  TreeAttentionOptions options;
  options.scale = 0.4;
  options.window = 6;
  options.sinks = sinks;
  options.visible_end = ends;
  options.positions = depths;
  options.block_table = at::zeros({3, 3}, at::kInt);
  options.sequences = at::zeros({3, 5}, at::kLong);
  std::vector<at::Tensor> wanted;
  for (size_t n = 0; n < all.size(); ++n) {
    const Sequence& s = all[n];
    const auto at_n = static_cast<int64_t>(n);
    const std::vector<int32_t> forest = testing::RandomForest(rng, s.keys, 0.15, 0.02);
    at::Tensor(ends)[at_n].narrow(0, 0, s.keys).copy_(VisibleEnd(forest));
    at::Tensor(depths)[at_n].narrow(0, 0, s.keys).copy_(VisibleEnd(testing::Depths(forest)));
    options.block_table[at_n].copy_(at::tensor(s.pages, at::kLong));
    options.sequences[at_n].copy_(at::tensor({s.q_begin, s.q_count, s.q_offset, s.keys, int64_t{0}}, at::kLong));
    const at::Tensor pages = at::tensor(s.pages, at::kLong);
    const auto gathered = [&](const at::Tensor& t) {
      return t.index_select(0, pages).flatten(0, 1).narrow(0, 0, s.keys).repeat_interleave(2, 1);
    };
    const at::Tensor i = at::arange(s.q_offset, s.q_offset + s.q_count).unsqueeze(1),
                     j = at::arange(s.keys).unsqueeze(0);
    const at::Tensor end = ends[at_n].narrow(0, 0, s.keys), depth = depths[at_n].narrow(0, 0, s.keys);
    const at::Tensor far = (depth.narrow(0, s.q_offset, s.q_count).unsqueeze(1) - depth.unsqueeze(0)) >= 6;
    const at::Tensor hidden = (j > i).logical_or(end.unsqueeze(0) <= i).logical_or(far);
    const at::Tensor scores = (at::einsum("ihd,jhd->hij", {q.narrow(0, s.q_begin, s.q_count), gathered(k)}) * 0.4)
                                  .masked_fill(hidden.unsqueeze(0), -INFINITY);
    const at::Tensor p = at::cat({scores, sinks.view({4, 1, 1}).expand({4, s.q_count, 1})}, 2).softmax(-1);
    wanted.push_back(at::einsum("hij,jhd->ihd", {p.slice(2, 0, s.keys), gathered(v)}));
  }
  const at::Tensor want = at::cat({at::cat(wanted), at::zeros({1, 4, 8}, at::kDouble)});
  const auto expected = torch::autograd::grad({(want * mix).sum()}, {q, k, v, sinks});
  const at::Tensor out = TreeAttention(q, k, v, options);
  const auto got = torch::autograd::grad({(out * mix).sum()}, {q, k, v, sinks});
  EXPECT_LT((out - want).abs().max().item<double>(), 1e-13);
  for (size_t t = 0; t < 4; ++t) {
    EXPECT_EQ(got[t].sizes(), expected[t].sizes());
    EXPECT_LT((got[t] - expected[t]).abs().max().item<double>(), 1e-12) << t;
    EXPECT_GT(expected[t].abs().max().item<double>(), 0.1);
  }
  const auto narrow = [&](const at::Tensor& t) { return t.detach().to(at::kBFloat16).requires_grad_(true); };
  const at::Tensor q16 = narrow(q), k16 = narrow(k), v16 = narrow(v);
  options.sinks = at::Tensor();
  const auto rounded = torch::autograd::grad({(TreeAttention(q16, k16, v16, options) * mix).sum()}, {q16, k16, v16});
  const at::Tensor wide_q = q16.detach().to(at::kDouble).requires_grad_(true),
                   wide_k = k16.detach().to(at::kDouble).requires_grad_(true),
                   wide_v = v16.detach().to(at::kDouble).requires_grad_(true);
  const auto exact =
      torch::autograd::grad({(TreeAttention(wide_q, wide_k, wide_v, options) * mix).sum()}, {wide_q, wide_k, wide_v});
  for (size_t t = 0; t < 3; ++t) {
    EXPECT_EQ(rounded[t].scalar_type(), at::kBFloat16);
    const double error = (rounded[t].to(at::kDouble) - exact[t]).norm().item<double>();
    EXPECT_LT(error, 0.02 * exact[t].norm().item<double>()) << t;  // a few roundings to 8 bits
  }
  options.sequences[1][0] = 5;
  EXPECT_NE(ErrorOf([&] { TreeAttention(q, k, v, options); }).find("query row 5 belongs to two sequences"),
            std::string::npos);
}

TEST(TreeAttentionOp, RejectsArraysThatDoNotFit) {
  const at::Tensor q = at::zeros({4, 4, 8}), k = at::zeros({10, 2, 8}), pages = at::zeros({3, 8, 2, 8});
  const auto error = [&](const at::Tensor& keys, const std::function<void(TreeAttentionOptions&)>& change) {
    TreeAttentionOptions options;
    change(options);
    return ErrorOf([&] { TreeAttention(q, keys, keys, options); });
  };
  const auto ints = [](std::vector<int64_t> values, at::ScalarType type) {
    return at::tensor(values, at::kLong).to(type);
  };
  EXPECT_EQ(error(k, [](auto&) {}), "");
  EXPECT_NE(error(k, [](auto& o) { o.q_offset = 7; }), "");
  EXPECT_NE(error(k, [](auto& o) { o.q_offset = -1; }), "");
  EXPECT_NE(error(k, [](auto& o) { o.window = -1; }), "");
  EXPECT_NE(error(k, [](auto& o) { o.soft_cap = -1; }), "");
  EXPECT_NE(error(k, [](auto& o) { o.scale = NAN; }), "");
  EXPECT_NE(error(k, [](auto& o) { o.sinks = at::zeros({3}); }), "");
  EXPECT_NE(error(k, [&](auto& o) { o.positions = ints({1, 2}, at::kInt); }), "");
  EXPECT_NE(error(k, [&](auto& o) { o.positions = at::zeros({10}, at::kLong); }), "");
  EXPECT_NE(error(k, [&](auto& o) { o.block_table = ints({0, 1}, at::kInt); }), "");
  EXPECT_NE(error(pages, [](auto&) {}), "");
  EXPECT_EQ(error(pages,
                  [&](auto& o) {
                    o.block_table = ints({2, 0}, at::kInt);
                    o.q_offset = 12;
                  }),
            "");
  EXPECT_NE(error(pages,
                  [&](auto& o) {
                    o.block_table = ints({2, 3}, at::kInt);
                    o.q_offset = 12;
                  }),
            "");
  EXPECT_NE(error(pages,
                  [&](auto& o) {
                    o.block_table = ints({2}, at::kInt);
                    o.q_offset = 12;
                  }),
            "");
  EXPECT_NE(error(k, [&](auto& o) { o.sequences = ints({0, 5, 0, 5, 0}, at::kLong).view({1, 5}); }), "");
  EXPECT_NE(error(k, [&](auto& o) { o.sequences = ints({0, 4, 0, 5, 6}, at::kLong).view({1, 5}); }), "");
  EXPECT_NE(error(k, [&](auto& o) { o.sequences = ints({0, 4, INT64_MAX, 5, 0}, at::kLong).view({1, 5}); }), "");
  EXPECT_EQ(error(k, [&](auto& o) { o.sequences = ints({0, 4, 1, 5, 5}, at::kLong).view({1, 5}); }), "");
}

// A path of 5 keys with a child at depth 2: rows 0-4 and 5-6. Rows 0 and 1 are keys alone.
std::vector<AttentionSequence> ForkedPaths(const std::vector<KeyRun>& whole, const std::vector<KeyRun>& child) {
  std::vector<AttentionSequence> paths(2);
  paths[0].q_count = 3, paths[0].q_offset = 2, paths[0].key_count = 5;
  paths[1].q_begin = 3, paths[1].q_count = 2, paths[1].q_offset = 2, paths[1].key_count = 4;
  paths[0].key_runs = whole.data(), paths[0].key_run_count = static_cast<int64_t>(whole.size());
  paths[1].key_runs = child.data(), paths[1].key_run_count = static_cast<int64_t>(child.size());
  return paths;
}

TEST(PathAttention, GivesTheValuesOfTreeAttention) {
  const std::vector<KeyRun> whole = {{0, 0}}, child = {{0, 0}, {2, 5}};
  const auto paths = ForkedPaths(whole, child);
  TreeAttentionOptions options;
  options.scale = 0.4;
  options.visible_end = VisibleEnd({7, 7, 5, 5, 5, 7, 7});
  options.q_offset = 2;
  const at::Tensor q = at::randn({5, 4, 8}, at::kDouble), k = at::randn({7, 2, 8}, at::kDouble),
                   v = at::randn({7, 2, 8}, at::kDouble);
  const auto [out, lse] = PathAttentionForward(q, k, v, paths, options.scale);
  const auto [stream_out, stream_lse] = TreeAttentionForward(q, k, v, options);
  EXPECT_LT((out - stream_out).abs().max().item<double>(), 1e-13);
  EXPECT_LT((lse - stream_lse).abs().max().item<double>(), 1e-13);
}

TEST(PathAttention, RejectsPathsThatDoNotFit) {
  const std::vector<KeyRun> whole = {{0, 0}}, child = {{0, 0}, {2, 5}}, late = {{1, 0}}, beyond = {{0, 0}, {2, 6}},
                            twice = {{0, 0}, {2, 5}, {2, 5}}, negative = {{0, -1}}, past = {{0, 0}, {4, 5}};
  const at::Tensor q = at::zeros({5, 4, 8}), k = at::zeros({7, 2, 8});
  const auto error = [&](const std::vector<AttentionSequence>& paths) {
    return ErrorOf([&] { PathAttentionForward(q, k, k, paths, 1); });
  };
  EXPECT_EQ(error(ForkedPaths(whole, child)), "");
  for (const auto* runs : {&late, &beyond, &twice, &negative, &past}) EXPECT_NE(error(ForkedPaths(whole, *runs)), "");
  auto paths = ForkedPaths(whole, child);
  paths.pop_back();
  EXPECT_NE(error(paths), "") << "queries without a path";
  paths = ForkedPaths(whole, child);
  paths[1].q_begin = 0;
  EXPECT_NE(error(paths), "") << "a query twice";
}

TEST(PagedTreeAttention, RejectsRowsAndPagesOutOfRange) {
  const at::Tensor q = at::zeros({4, 2, 8}), pages = at::zeros({3, 16, 1, 8}), out = at::zeros({4, 2, 8});
  const std::vector<int32_t> table = {2, 0};
  AttentionSequence good;
  good.q_count = 4;
  good.q_offset = 20;
  good.key_count = 24;
  good.block_table = table.data();
  const auto error = [&](const AttentionSequence& s) {
    return ErrorOf([&] { PagedTreeAttention(q, pages, pages, {&s, 1}, 1, out); });
  };
  EXPECT_EQ(error(good), "");
  AttentionSequence s = good;
  s.q_begin = 1;
  EXPECT_NE(error(s), "");
  s = good;
  s.key_count = 23;
  EXPECT_NE(error(s), "");
  const std::vector<int32_t> wild = {2, 3};
  s = good;
  s.block_table = wild.data();
  EXPECT_NE(error(s), "");
  s = good;
  s.block_table = nullptr;
  s.key_begin = 30;
  EXPECT_NE(error(s), "");
}

}  // namespace
}  // namespace ingot::kernels
