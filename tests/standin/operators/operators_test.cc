// torch's CUDA libraries on the stand-in: the same program on cpu and on cuda gives equal bits, and torch's own use of streams, events,
// pinned memory and graphs works. Runs under standin.py.
#include <ATen/ATen.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace {

using Tensors = std::vector<at::Tensor>;

// Runs `program` on both devices over copies of `inputs` and compares all results.
void ExpectEqualBits(const Tensors& inputs, const std::function<Tensors(const Tensors&)>& program) {
  const Tensors expected = program(inputs);
  Tensors on_device;
  for (const at::Tensor& t : inputs) on_device.push_back(t.to(at::kCUDA));
  const Tensors results = program(on_device);
  ASSERT_EQ(results.size(), expected.size());
  for (size_t i = 0; i < results.size(); ++i) {
    EXPECT_TRUE(results[i].is_cuda()) << "result " << i;
    const at::Tensor host = results[i].to(at::kCPU);
    EXPECT_EQ(host.sizes(), expected[i].sizes()) << "result " << i;
    EXPECT_EQ(host.strides(), expected[i].strides()) << "result " << i;
    EXPECT_TRUE(at::equal(host, expected[i])) << "result " << i << ": " << host << " instead of " << expected[i];
  }
}

at::Tensor Random(at::IntArrayRef sizes, at::ScalarType type = at::kFloat) {
  static at::Generator generator = [] {
    at::Generator g = at::globalContext().defaultGenerator(at::kCPU).clone();
    g.set_current_seed(1);
    return g;
  }();
  return at::randn(sizes, generator).to(type);
}

TEST(TorchTest, OperatorsEqualTheCpus) {
  ExpectEqualBits({Random({5, 8}), Random({8, 3}), Random({3})}, [](const Tensors& t) {
    const at::Tensor y = at::addmm(t[2], t[0], t[1]);
    const auto [sorted, order] = y.sort(1);
    return Tensors{y,       sorted,           order, at::log_softmax(y, 1), y.t().contiguous(), at::cat({y, y}, 0),
                   y.sum(), y.gt(0).nonzero()};
  });
}

TEST(TorchTest, OperatorsInPlaceIntoAndOverViews) {
  ExpectEqualBits({Random({4, 6}), Random({4, 6})}, [](const Tensors& t) {
    at::Tensor x = t[0].clone(), out = at::empty({0}, x.options());
    at::add_out(out, x, t[1]);  // resized
    x.slice(1, 1, 4).mul_(2);
    x.t()[0].copy_(t[1].t()[1]);
    x.select(0, 2).fill_(3);
    return Tensors{x, out, x.view({2, 12}), x.transpose(0, 1), x.masked_fill(x.gt(1), 0)};
  });
}

TEST(TorchTest, IndexesAndTypes) {
  ExpectEqualBits({Random({6, 4}), at::tensor({5, 0, 0, 3}, at::kLong)}, [](const Tensors& t) {
    at::Tensor x = t[0].to(at::kBFloat16), sum = at::zeros({6, 4}, t[0].options());
    sum.index_add_(0, t[1], t[0].slice(0, 0, 4));
    sum.index_put_({t[1].slice(0, 0, 2)}, at::ones({2, 4}, t[0].options()));
    return Tensors{x,   x.index({t[1]}),           x.index_select(0, t[1]),
                   sum, at::embedding(t[0], t[1]), t[0].gather(0, t[1].unsqueeze(0))};
  });
}

// As with the atomics of a GPU.
TEST(TorchTest, RowsWithOneIndexAreAddedInAnyOrder) {
  const at::Tensor rows = Random({1000, 3}).to(at::kCUDA), ids = at::arange(1000).remainder(2).to(at::kCUDA);
  const auto differ = [](const std::function<at::Tensor()>& sum) {
    const at::Tensor first = sum();
    for (int i = 0; i < 20; ++i) {
      const at::Tensor again = sum();
      EXPECT_TRUE(at::allclose(again, first, 1e-4, 1e-4));
      if (!at::equal(again, first)) return true;
    }
    return false;
  };
  EXPECT_TRUE(differ([&] { return at::zeros({2, 3}, rows.options()).index_add_(0, ids, rows); }));
  EXPECT_TRUE(differ([&] { return at::zeros({3, 2}, rows.options()).index_add_(-1, ids, rows.t()); }));
  EXPECT_TRUE(differ(
      [&] { return at::zeros({2, 3}, rows.options()).scatter_add_(0, ids.unsqueeze(1).expand({1000, 3}), rows); }));
  EXPECT_TRUE(differ([&] { return at::embedding_dense_backward(rows, ids, 2, -1, false); }));
}

// bf16 products whose sums stay in fp32, in any layout, and added to what is there.
TEST(TorchTest, ProductsThatAreNotRounded) {
  const at::Tensor a = Random({5, 70}, at::kBFloat16), b = Random({70, 3}, at::kBFloat16);
  const at::Tensor want = at::mm(a.to(at::kFloat), b.to(at::kFloat)), on = a.to(at::kCUDA);
  for (const at::Tensor& other : {b.to(at::kCUDA), b.t().contiguous().to(at::kCUDA).t()}) {
    at::Tensor sum = at::mm(on, other, at::kFloat);
    EXPECT_EQ(sum.scalar_type(), at::kFloat);
    EXPECT_LT((sum.cpu() - want).abs().max().item<double>(), 1e-5);
    at::addmm_out(sum, sum, on, other, at::kFloat);
    EXPECT_LT((sum.cpu() - 2 * want).abs().max().item<double>(), 2e-5);
  }
  EXPECT_THROW(at::mm(on, b.to(at::kCUDA), at::kDouble), c10::Error);
}

TEST(TorchTest, Autograd) {
  ExpectEqualBits({Random({5, 8}), Random({8, 8}), at::tensor({1, 4, 2, 0, 7}, at::kLong)}, [](const Tensors& t) {
    at::Tensor x = t[0].detach().clone().requires_grad_(), w = t[1].detach().clone().requires_grad_();
    const at::Tensor logits = at::matmul(at::silu(x), w);
    at::nll_loss(at::log_softmax(logits, 1), t[2]).backward();
    return Tensors{x.grad(), w.grad()};
  });
}

TEST(TorchTest, PinnedCopiesWaitForTheirStream) {
  const at::Tensor in = at::full({1000}, 5.0f).pin_memory();
  ASSERT_TRUE(in.is_pinned());
  const at::Tensor out = at::full({1000}, -1.0f).pin_memory();
  const auto stream = c10::cuda::getStreamFromPool();
  const c10::cuda::CUDAStreamGuard guard(stream);
  at::Tensor device = in.to(at::kCUDA, /*non_blocking=*/true);
  at::Tensor(out).copy_(device, /*non_blocking=*/true);
  stream.synchronize();
  EXPECT_EQ(out[999].item<float>(), 5);
}

// What a captured graph may hold: copies of whole blocks. An operator of torch waits, and a capture refuses it.
TEST(TorchTest, GraphsCaptureAndReplay) {
  at::Tensor from = at::zeros({64}, at::dtype(at::kFloat).device(at::kCUDA)), to = at::zeros_like(from);
  at::cuda::CUDAGraph graph;
  {
    const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool());
    graph.capture_begin();
    to.copy_(from);
    graph.capture_end();
  }
  from.fill_(3);
  graph.replay();
  EXPECT_EQ(to.cpu()[7].item<float>(), 3);
}

TEST(TorchTest, RunsOutOfMemoryByName) {
  const auto huge = [] { return at::empty({int64_t{1} << 40}, at::dtype(at::kByte).device(at::kCUDA)); };
  try {
    (void)huge();
    FAIL() << "a terabyte was allocated";
  } catch (const c10::OutOfMemoryError& error) {
    EXPECT_NE(std::string(error.what()).find("out of memory"), std::string::npos);
  }
  EXPECT_EQ(at::ones({3}, at::device(at::kCUDA)).sum().item<float>(), 3);
}

}  // namespace
