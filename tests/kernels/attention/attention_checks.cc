#include "kernels/attention/attention_checks.h"

#include <ATen/ATen.h>
#include <dlfcn.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/attention/attention_reference.h"
#include "kernels/torch/tree_attention.h"

namespace ingot::kernels::testing {
namespace {

using Report = std::function<void(const CheckResult&)>;

template <typename T>
constexpr at::ScalarType kType = at::kDouble;
template <>
inline constexpr at::ScalarType kType<float> = at::kFloat;
template <>
inline constexpr at::ScalarType kType<BFloat16> = at::kBFloat16;

struct Limits {
  double out, grad;
};
// For the reasons see kTolerance of attention_stream.h. lse is not rounded to bf16.
template <typename T>
constexpr Limits kLimits{1e-13, 1e-12};
template <>
inline constexpr Limits kLimits<float>{3e-6, 1e-5};
template <>
inline constexpr Limits kLimits<BFloat16>{4e-3, 1.2e-2};

template <typename T>
at::Tensor ToTensor(const std::vector<T>& values, at::IntArrayRef shape, at::Device device) {
  return at::from_blob(const_cast<T*>(values.data()), shape, at::dtype(kType<T>)).clone().to(device);
}

at::Tensor Integers(const std::vector<int32_t>& values, at::Device device = at::kCPU) {
  return at::tensor(values, at::kInt).to(device);
}

double ErrorOf(const at::Tensor& got, const std::vector<double>& want) {
  const at::Tensor host = got.detach().to(at::kCPU, at::kDouble).contiguous();
  return RelativeError(std::vector<double>(host.const_data_ptr<double>(), host.const_data_ptr<double>() + host.numel()),
                       want);
}

double Differs(const at::Tensor& a, const at::Tensor& b) { return at::equal(a, b) ? 0 : 1; }

// A packed stream on the device, and the expected results of its operator.
template <typename T>
struct Case {
  AttentionShape shape;
  std::vector<int32_t> ends, depths;
  std::vector<T> q, k, v, grad;
  std::vector<Accumulator<T>> sinks;
  at::Tensor q_in, k_in, v_in, grad_in, sinks_in;
  TreeAttentionOptions options;

  Case(std::mt19937_64& rng, const AttentionShape& s, int64_t rows, double branch, bool with_sinks, at::Device device)
      : shape(s),
        ends(RandomForest(rng, rows, branch, 0.01)),
        depths(Depths(ends)),
        q(RandomVector<T>(rng, rows * s.heads * s.head_dim)),
        k(RandomVector<T>(rng, rows * s.kv_heads * s.head_dim)),
        v(RandomVector<T>(rng, rows * s.kv_heads * s.head_dim)),
        grad(RandomVector<T>(rng, rows * s.heads * s.head_dim)) {
    if (with_sinks) sinks = RandomVector<Accumulator<T>>(rng, s.heads);
    q_in = ToTensor(q, {rows, s.heads, s.head_dim}, device).requires_grad_(true);
    k_in = ToTensor(k, {rows, s.kv_heads, s.head_dim}, device).requires_grad_(true);
    v_in = ToTensor(v, {rows, s.kv_heads, s.head_dim}, device).requires_grad_(true);
    grad_in = ToTensor(grad, {rows, s.heads, s.head_dim}, device);
    if (with_sinks) sinks_in = ToTensor(sinks, {s.heads}, device).requires_grad_(true);
    options.scale = s.scale;
    options.window = s.window;
    options.visible_end = Integers(ends);
    options.positions = Integers(depths);
    options.sinks = sinks_in;
  }

  // Fresh gradients each time.
  std::vector<at::Tensor> Run() {
    for (at::Tensor* t : {&q_in, &k_in, &v_in, &sinks_in}) {
      if (t->defined()) t->mutable_grad().reset();
    }
    const at::Tensor out = TreeAttention(q_in, k_in, v_in, options);
    out.backward(grad_in);
    std::vector<at::Tensor> result = {out.detach(), q_in.grad(), k_in.grad(), v_in.grad()};
    if (sinks_in.defined()) result.push_back(sinks_in.grad());
    return result;
  }
};

template <typename T>
void CheckGradients(at::Device device, const Report& report, bool small) {
  std::mt19937_64 rng(1);
  const struct {
    AttentionShape shape;
    int64_t rows;
    double branch;
    bool sinks;
  } cases[] = {{{2, 2, 32, 0.2}, 1, 0, false},         {{4, 2, 64, 0.125}, 65, 0.1, true},
               {{6, 1, 8, 0.3, 40}, 193, 0.1, false},  {{3, 3, 5, 0.4}, 130, 0.2, true},
               {{8, 2, 128, 0.09}, 500, 0.02, false},  {{2, 1, 256, 0.06, 100}, 200, 0.05, true},
               {{70, 1, 24, -0.2}, 70, 0.1, false},    {{2, 1, 16, 0.0}, 90, 0.1, false},
               {{2, 1, 64, 0.125}, 1500, 0.01, false}, {{2, 1, 576, 0.04}, 70, 0.1, false}};
  for (const auto& c : cases) {
    if (small && c.rows > 100) continue;
    Case<T> x(rng, c.shape, c.rows, c.branch, c.sinks, device);
    const std::string name = std::string(at::toString(kType<T>)) + " heads " + std::to_string(c.shape.heads) + "/" +
                             std::to_string(c.shape.kv_heads) + " d " + std::to_string(c.shape.head_dim) + " rows " +
                             std::to_string(c.rows) + " window " + std::to_string(c.shape.window) +
                             (c.sinks ? " sinks " : " ");
    const ReferenceResult want = GatheredPaths<T>({x.shape, x.ends, 0, x.sinks, x.q, x.k, x.v, x.grad});
    const std::vector<at::Tensor> got = x.Run();
    report({name + "out", ErrorOf(got[0], want.out), kLimits<T>.out});
    report({name + "grad_q", ErrorOf(got[1], want.grad_q), kLimits<T>.grad});
    report({name + "grad_k", ErrorOf(got[2], want.grad_k), kLimits<T>.grad});
    report({name + "grad_v", ErrorOf(got[3], want.grad_v), kLimits<T>.grad});
    if (c.sinks) report({name + "grad_sinks", ErrorOf(got[4], want.grad_sinks), kLimits<T>.grad});
    const auto [out, lse] = TreeAttentionForward(x.q_in, x.k_in, x.v_in, x.options);
    report({name + "lse", ErrorOf(lse, want.lse), kType<T> == at::kDouble ? 1e-13 : 3e-6});
    const std::vector<at::Tensor> again = x.Run();
    double differ = 0;
    for (size_t i = 0; i < got.size(); ++i) differ = std::max(differ, Differs(got[i], again[i]));
    report({name + "same bits again", differ, 0});
    x.options.visible_end = Integers(x.ends, device);
    x.options.positions = Integers(x.depths, device);
    report({name + "integers on the device",
            Differs(std::get<0>(TreeAttentionForward(x.q_in, x.k_in, x.v_in, x.options)), out), 0});
    if (device.is_cpu()) continue;
    // The CPU's own kernels as a second reference.
    Case<T> cpu = x;
    for (at::Tensor* t : {&cpu.q_in, &cpu.k_in, &cpu.v_in, &cpu.sinks_in}) {
      if (t->defined()) *t = t->detach().to(at::kCPU);
    }
    cpu.options.visible_end = Integers(x.ends);
    cpu.options.positions = Integers(x.depths);
    cpu.options.sinks = cpu.sinks_in;
    const at::Tensor other = std::get<0>(TreeAttentionForward(cpu.q_in, cpu.k_in, cpu.v_in, cpu.options));
    const at::Tensor wide = other.to(at::kDouble).contiguous();
    report({name + "out against the CPU's",
            ErrorOf(got[0],
                    std::vector<double>(wide.const_data_ptr<double>(), wide.const_data_ptr<double>() + wide.numel())),
            2 * kLimits<T>.out});
  }
}

// A ragged batch over pages (decodes, chunks of prompts, trees). Each part equals its own sequence to the bit.
template <typename T>
void CheckPages(at::Device device, const Report& report, bool small) {
  std::mt19937_64 rng(2);
  const AttentionShape shape{4, 2, 64, 0.125};
  const struct {
    int64_t length, offset;
    bool tree;
  } parts[] = {{300, 299, false}, {130, 0, true}, {65, 64, false}, {200, 120, true}, {129, 127, false}, {1, 0, false}};
  for (const int64_t page_size : {16, 24, 64}) {
    if (small && page_size != 24) continue;
    constexpr int64_t kKeys = 1536;
    std::vector<int32_t> free(kKeys / page_size);
    for (size_t p = 0; p < free.size(); ++p) free[p] = static_cast<int32_t>(p);
    std::shuffle(free.begin(), free.end(), rng);
    const auto options = at::dtype(kType<T>).device(device);
    // Rows that no sequence owns are not-a-number, so that reading one would show.
    const at::Tensor k_pages = at::full({kKeys / page_size, page_size, 2, 64}, NAN, options), v_pages = k_pages.clone();
    std::vector<Case<T>> streams;
    std::vector<std::vector<int32_t>> tables(std::size(parts));
    std::vector<AttentionSequence> sequences;
    std::vector<at::Tensor> q, want;
    int64_t row = 0;
    for (const auto& part : parts) streams.emplace_back(rng, shape, part.length, part.tree ? 0.1 : 0, false, device);
    for (size_t i = 0; i < streams.size(); ++i) {
      const Case<T>& s = streams[i];
      const int64_t length = parts[i].length;
      for (int64_t key = 0; key < length; key += page_size) {
        tables[i].push_back(free.back());
        free.pop_back();
        const int64_t count = std::min(page_size, length - key);
        k_pages[tables[i].back()].slice(0, 0, count).copy_(s.k_in.detach().slice(0, key, key + count));
        v_pages[tables[i].back()].slice(0, 0, count).copy_(s.v_in.detach().slice(0, key, key + count));
      }
      AttentionSequence& sequence = sequences.emplace_back();
      sequence.q_begin = row;
      sequence.q_offset = parts[i].offset;
      sequence.q_count = length - parts[i].offset;
      sequence.key_count = length;
      sequence.block_table = tables[i].data();
      sequence.visible_end = parts[i].tree ? s.ends.data() : nullptr;
      row += sequence.q_count;
      TreeAttentionOptions alone;
      alone.scale = shape.scale;
      if (parts[i].tree) alone.visible_end = Integers(s.ends);
      want.push_back(
          std::get<0>(TreeAttentionForward(s.q_in, s.k_in, s.v_in, alone)).slice(0, parts[i].offset, length));
      q.push_back(s.q_in.detach().slice(0, parts[i].offset, length));
    }
    // Random forests have more than one root. A part that is no tree is one sequence.
    const at::Tensor queries = at::cat(q), out = at::full_like(queries, NAN);
    PagedTreeAttention(queries, k_pages, v_pages, sequences, shape.scale, out);
    report(
        {std::string(at::toString(kType<T>)) + " pages of " + std::to_string(page_size) + ": each sequence's own bits",
         Differs(out, at::cat(want)), 0});
  }
}

// Decodes over several chunks of keys (kernels/cuda/decode_plan.h). The first two sequences have a prefix of 512 keys in
// common, and the second verifies drafts. Each has the bits that it has alone, and is close to the CPU's result in fp64.
void CheckDecode(at::Device device, const Report& report, bool small) {
  std::mt19937_64 rng(3);
  constexpr int64_t kPage = 16, kPrefix = 512 / kPage;
  const int64_t kv_heads = 2, heads = 8, width = small ? 40 : 128;
  for (const int64_t window : {0, 300}) {
    const std::vector<int64_t> lengths = {small ? 600 : 1700, small ? 530 : 1100, 513, 40, 1};
    int64_t pages = 0, rows = 0;
    std::vector<std::vector<int32_t>> tables;
    std::vector<AttentionSequence> sequences;
    for (const int64_t length : lengths) {
      std::vector<int32_t>& table = tables.emplace_back();
      if (tables.size() == 2) table.assign(tables[0].begin(), tables[0].begin() + kPrefix);
      while (std::ssize(table) * kPage < length) table.push_back(static_cast<int32_t>(pages++));
    }
    for (size_t i = 0; i < lengths.size(); ++i) {
      AttentionSequence& s = sequences.emplace_back();
      s.q_begin = rows;
      s.q_count = i == 1 ? 4 : 1;
      s.q_offset = lengths[i] - s.q_count;
      s.key_count = lengths[i];
      s.block_table = tables[i].data();
      rows += s.q_count;
    }
    const auto random = [&](at::IntArrayRef shape) {
      return ToTensor(RandomVector<BFloat16>(rng, c10::multiply_integers(shape)), shape, at::kCPU);
    };
    const at::Tensor q = random({rows, heads, width}), k = random({pages, kPage, kv_heads, width}),
                     v = random({pages, kPage, kv_heads, width});
    const at::Tensor sinks = window == 0 ? at::Tensor() : ToTensor(RandomVector<float>(rng, heads), {heads}, at::kCPU);
    const auto decode = [&](std::span<const AttentionSequence> of, at::Device on, at::ScalarType type) {
      const at::Tensor out = at::zeros(q.sizes(), at::dtype(type).device(on));
      PagedTreeAttention(q.to(on, type), k.to(on, type), v.to(on, type), of, 0.1, out,
                         sinks.defined() ? sinks.to(on) : sinks, window);
      return out;
    };
    const std::string name = "decode, window " + std::to_string(window) + ": ";
    const at::Tensor got = decode(sequences, device, at::kBFloat16);
    const at::Tensor want = decode(sequences, at::kCPU, at::kDouble);
    report(
        {name + "out",
         ErrorOf(got, std::vector<double>(want.const_data_ptr<double>(), want.const_data_ptr<double>() + want.numel())),
         kLimits<BFloat16>.out});
    at::Tensor alone = at::zeros_like(got);
    for (const AttentionSequence& s : sequences) alone += decode({&s, 1}, device, at::kBFloat16);
    report({name + "each sequence's own bits", Differs(got, alone), 0});
  }
}

// How often the process has copied from the host to a device, on the stand-in of CUDA (tests/standin), which counts it.
std::optional<uint64_t> Uploads() {
  void* const count = dlsym(RTLD_DEFAULT, "ingot_standin_uploads");
  if (count == nullptr) return std::nullopt;
  return reinterpret_cast<uint64_t (*)()>(count)();
}

// Layers of one batch share its plans: one for their forward passes and one for their backward passes.
template <typename T>
void CheckPlans(at::Device device, const Report& report) {
  std::mt19937_64 rng(3);
  Case<T> x(rng, {2, 1, 32, 0.2}, 80, 0.1, false, device);
  const std::vector<at::Tensor> want = x.Run();
  x.options.plans = c10::make_intrusive<AttentionPlans>();
  const std::optional<uint64_t> before = Uploads();
  double differ = 0;
  for (int layer = 0; layer < 3; ++layer) {
    const std::vector<at::Tensor> got = x.Run();
    for (size_t i = 0; i < got.size(); ++i) differ = std::max(differ, Differs(got[i], want[i]));
  }
  const std::optional<uint64_t> after = Uploads();
  const std::string name = std::string(at::toString(kType<T>)) + " layers with one plan";
  report({name, differ, 0});
  if (before.has_value()) report({name + ": uploads", *after - *before == 2 ? 0.0 : 1.0, 0});
  const auto kind = [&](int64_t window) {
    x.options.window = window;
    const at::Tensor shared = std::get<0>(TreeAttentionForward(x.q_in, x.k_in, x.v_in, x.options));
    TreeAttentionOptions own = x.options;
    own.plans = {};
    return Differs(shared, std::get<0>(TreeAttentionForward(x.q_in, x.k_in, x.v_in, own)));
  };
  report({name + ", windows", std::max(kind(20), kind(0)), 0});
}

// A stream in two pieces, the last queries first. Their gradients add up in fp32 (fp64), without rounding in between.
template <typename T>
void CheckPieces(at::Device device, const Report& report) {
  std::mt19937_64 rng(4);
  Case<T> x(rng, {4, 2, 40, 0.16}, 90, 0.1, false, device);
  const auto sums = x.k_in.options().dtype(kType<Accumulator<T>>).requires_grad(false);
  const at::Tensor k_sum = at::zeros(x.k_in.sizes(), sums), v_sum = at::zeros(x.k_in.sizes(), sums);
  const at::NoGradGuard no_history;
  const auto [out, lse] = TreeAttentionForward(x.q_in, x.k_in, x.v_in, x.options);
  std::vector<at::Tensor> grad_q;
  for (const auto& [first, last] : {std::pair<int64_t, int64_t>{50, 90}, {0, 50}}) {
    const auto own = [f = first, l = last](const at::Tensor& t) { return t.slice(0, f, l).detach(); };
    const auto seen = [l = last](const at::Tensor& t) { return t.slice(0, 0, l).detach(); };
    TreeAttentionOptions piece = x.options;
    piece.visible_end = seen(x.options.visible_end);
    piece.positions = seen(x.options.positions);
    grad_q.insert(grad_q.begin(), TreeAttentionBackward(own(x.grad_in), own(x.q_in), seen(x.k_in), seen(x.v_in),
                                                        own(out), own(lse), piece, seen(k_sum), seen(v_sum)));
  }
  const std::string name = std::string(at::toString(kType<T>)) + " in two pieces: ";
  const ReferenceResult want = GatheredPaths<T>({x.shape, x.ends, 0, x.sinks, x.q, x.k, x.v, x.grad});
  report({name + "grad_q", ErrorOf(at::cat(grad_q), want.grad_q), kLimits<T>.grad});
  report({name + "grad_k", ErrorOf(k_sum, want.grad_k), kLimits<T>.grad});
  report({name + "grad_v", ErrorOf(v_sum, want.grad_v), kLimits<T>.grad});
}

void CheckSlicesAndHalf(at::Device device, const Report& report) {
  const at::Tensor fused = at::randn({90, 3, 64}).to(device);
  const at::Tensor q = fused.narrow(1, 0, 1), k = fused.narrow(1, 1, 1), v = fused.narrow(1, 2, 1);
  const at::Tensor want = TreeAttention(q.contiguous(), k.contiguous(), v.contiguous(), {}, 0.125);
  report({"slices of a fused projection", Differs(TreeAttention(q, k, v, {}, 0.125), want), 0});
  const at::Tensor half = TreeAttention(q.to(at::kHalf), k.to(at::kHalf), v.to(at::kHalf), {}, 0.125);
  report({"float16", (half.to(at::kFloat) - want).norm().item<double>() / want.norm().item<double>(), 1e-3});
  const at::Tensor none = TreeAttention(q.narrow(0, 0, 0), k.narrow(0, 0, 0), v.narrow(0, 0, 0), {}, 1);
  report({"no rows", none.numel() == 0 ? 0.0 : 1.0, 0});
}

}  // namespace

void CheckTreeAttention(at::Device device, const Report& report, bool small) {
  CheckPlans<float>(device, report);
  CheckPlans<BFloat16>(device, report);
  CheckPieces<float>(device, report);
  CheckPieces<BFloat16>(device, report);
  CheckGradients<double>(device, report, small);
  CheckGradients<float>(device, report, small);
  CheckGradients<BFloat16>(device, report, small);
  CheckPages<float>(device, report, small);
  CheckPages<BFloat16>(device, report, small);
  CheckDecode(device, report, small);
  CheckSlicesAndHalf(device, report);
}

}  // namespace ingot::kernels::testing
