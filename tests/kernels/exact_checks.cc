#include "kernels/exact_checks.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/torch/exact.h"
#include "kernels/torch/tree_attention.h"
#include "kernels/torch/typed.h"

namespace ingot::kernels::testing {
namespace {

using Report = std::function<void(const CheckResult&)>;

double Differs(const at::Tensor& a, const at::Tensor& b) { return at::equal(a, b) ? 0 : 1; }

double ErrorOf(const at::Tensor& got, const at::Tensor& want) {
  const at::Tensor wide = got.to(at::kCPU, at::kDouble);
  return (wide - want).norm().item<double>() / want.norm().item<double>();
}

std::string Named(const char* what, const at::Tensor& x, int64_t out) {
  return std::string(what) + ", " + at::toString(x.scalar_type()) + " " + std::to_string(x.size(1)) + " to " +
         std::to_string(out);
}

// The numbers of rows lie around the edges of the kernels' tiles.
void CheckLinear(at::Device device, at::ScalarType type, int64_t in, int64_t out, const Report& report) {
  const at::Tensor x = at::randn({300, in}).to(type), weight = at::randn({out, in}).to(type);
  const at::Tensor bias = at::randn({out}).to(type);
  const at::Tensor on_device = x.to(device), w = weight.to(device), b = bias.to(device);
  for (const bool wide : {false, true}) {
    const auto run = [&](int64_t first, int64_t count) {
      return ExactLinear(on_device.narrow(0, first, count), w, b, wide);
    };
    const at::Tensor all = run(0, 300);
    double differs = 0;
    for (const int64_t count : {1, 2, 16, 17, 64, 65, 128, 129}) {
      const int64_t first = 300 - count * 2;
      if (first < 0) continue;
      differs = std::max(differs, Differs(run(first, count), all.narrow(0, first, count)));
    }
    const std::string name = Named(wide ? "wide linear layer" : "linear layer", x, out);
    report({name + ": rows in other batches", differs, 0});
    const at::Tensor want = at::addmm(bias.to(at::kDouble), x.to(at::kDouble), weight.to(at::kDouble).t());
    const bool narrow = type == at::kBFloat16 && !wide;
    report({name, ErrorOf(all, want), narrow ? 3e-3 : type == at::kDouble ? 1e-14 : 1e-5});
  }
}

// A prompt of two branches. Each query's output is the same in a step of decode, in pieces of the prompt, in the whole
// prompt, and as a path of the packed tree.
void CheckAttention(at::Device device, at::ScalarType type, int64_t keys, int64_t window, const Report& report) {
  constexpr int64_t kHeads = 4, kKvHeads = 2, kWidth = 64, kPage = 16;
  const double scale = 0.125;
  const int64_t fork = keys - 30, packed = keys + 20;  // the second branch has 20 rows at depths fork, fork + 1, ...
  const auto random = [&](int64_t heads) { return at::randn({packed, heads, kWidth}).to(device, type); };
  const at::Tensor q = random(kHeads), k = random(kKvHeads), v = random(kKvHeads),
                   sinks = at::randn({kHeads}).to(device);
  const std::vector<KeyRun> runs[2] = {{{0, 0}}, {{0, 0}, {static_cast<int32_t>(fork), static_cast<int32_t>(keys)}}};
  std::vector<AttentionSequence> paths(2);
  for (int64_t branch = 0; branch < 2; ++branch) {
    AttentionSequence& path = paths[static_cast<size_t>(branch)];
    path.q_begin = branch == 0 ? 0 : keys;
    path.q_count = branch == 0 ? keys : packed - keys;
    path.q_offset = branch == 0 ? 0 : fork;
    path.key_count = path.q_offset + path.q_count;
    path.key_runs = runs[branch].data();
    path.key_run_count = static_cast<int64_t>(runs[branch].size());
  }
  const auto exact = [] { return c10::make_intrusive<AttentionPlans>(/*exact=*/true); };
  const auto [out, lse] = PathAttentionForward(q, k, v, paths, scale, sinks, window, 0, exact());
  double differs = 0;
  for (const AttentionSequence& path : paths) {
    const bool first = path.q_offset == 0;
    const auto dense = [&](const at::Tensor& t) {
      return first ? t.narrow(0, 0, keys) : at::cat({t.narrow(0, 0, fork), t.narrow(0, keys, packed - keys)});
    };
    const int64_t pages = (path.key_count + kPage - 1) / kPage;
    std::vector<int32_t> table;
    for (int64_t p = 0; p < pages; ++p) table.push_back(static_cast<int32_t>(pages - 1 - p));
    const auto paged = [&](const at::Tensor& t) {
      const at::Tensor padded = at::zeros({pages * kPage, kKvHeads, kWidth}, t.options());
      padded.narrow(0, 0, path.key_count).copy_(dense(t));
      return padded.view({pages, kPage, kKvHeads, kWidth}).flip(0).contiguous();
    };
    const at::Tensor own_q = dense(q), k_pages = paged(k), v_pages = paged(v);
    const int64_t end = path.key_count;
    for (const auto& [offset, count] :
         {std::pair<int64_t, int64_t>{0, end}, {end - 100, 90}, {end - 17, 16}, {end - 1, 1}}) {
      AttentionSequence s;
      s.q_count = count;
      s.q_offset = offset;
      s.key_count = offset + count;
      s.block_table = table.data();
      const at::Tensor part = own_q.narrow(0, offset, count).contiguous(), got = at::empty_like(part);
      PagedTreeAttention(part, k_pages, v_pages, {&s, 1}, scale, got, sinks, window, 0, exact());
      differs = std::max(differs, Differs(got, dense(out).narrow(0, offset, count)));
    }
  }
  report({std::string("exact attention, ") + at::toString(type) + ", " + std::to_string(keys) + " keys, window " +
              std::to_string(window) + ": decode, prompts, and paths",
          differs, 0});
}

}  // namespace

void CheckExact(at::Device device, const Report& report, bool small) {
  CheckLinear(device, at::kBFloat16, 72, 70, report);
  CheckLinear(device, at::kBFloat16, 21, 65, report);
  CheckLinear(device, at::kFloat, 40, 70, report);
  CheckLinear(device, at::kDouble, 33, 20, report);
  if (!small) {
    CheckLinear(device, at::kBFloat16, 1024, 3072, report);
    CheckLinear(device, at::kBFloat16, 3072, 1024, report);
    CheckLinear(device, at::kFloat, 1024, 1000, report);
  }
  CheckAttention(device, at::kBFloat16, small ? 550 : 1100, 0, report);
  CheckAttention(device, at::kBFloat16, small ? 550 : 1100, 530, report);
  CheckAttention(device, at::kFloat, 150, 0, report);
}

}  // namespace ingot::kernels::testing
