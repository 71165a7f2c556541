// gpu_check LIBINGOT_CUDA [--no-bench] [--no-checks] [--small]: on a machine with a card, prints JSON lines: the device,
// every check of attention_checks.h, layer_checks.h, and exact_checks.h, of races, of added rows, and of gathered changes, then times.
// --small leaves out the larger checks and divides the lengths of the timed
// shapes by 128, and decodes small batches alone. Exit code 0 = all checks hold. A program of its own, since such a machine has no GoogleTest.
#include <ATen/ATen.h>
#include <dlfcn.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "kernels/attention/attention_checks.h"
#include "kernels/cuda/probe.h"
#include "kernels/exact_checks.h"
#include "kernels/layer_checks.h"
#include "kernels/torch/add_rows.h"
#include "kernels/torch/changes.h"
#include "kernels/torch/exact.h"
#include "kernels/torch/race.h"
#include "kernels/torch/tree_attention.h"

namespace ingot::kernels {
namespace {

using Clock = std::chrono::steady_clock;

void Wait(const at::Tensor& t) { (void)t.flatten().slice(0, 0, 1).to(at::kCPU); }

// Divides the lengths of --small, for a device whose kernels are interpreted.
constexpr int64_t kSmaller = 128;

// The least time of five after a first run, in milliseconds. If `divisor` is not 1, the time of one run, which means nothing there. f
// returns a tensor that is ready when the work is done.
template <typename F>
double Milliseconds(int64_t divisor, const F& f) {
  if (divisor == 1) Wait(f());
  double least = 1e30;
  for (int i = 0; i < (divisor == 1 ? 5 : 1); ++i) {
    const auto start = Clock::now();
    Wait(f());
    least = std::min(least, std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  }
  return least;
}

// A prompt and branches below it. One branch = plain causal.
std::vector<int32_t> Ends(int64_t prompt, int64_t branches, int64_t branch) {
  std::vector<int32_t> ends(prompt, static_cast<int32_t>(prompt + branches * branch));
  for (int64_t b = 0; b < branches; ++b)
    ends.insert(ends.end(), branch, static_cast<int32_t>(prompt + (b + 1) * branch));
  return ends;
}

void Figure(const char* name, double milliseconds, double flops) {
  std::printf("{\"figure\": \"%s\", \"ms\": %.3f, \"tflops\": %.2f}\n", name, milliseconds,
              flops / milliseconds * 1e-9);
  std::fflush(stdout);
}

void Streams(at::ScalarType type, const char* type_name, int64_t divisor) {
  const int64_t heads = 16, kv_heads = 8, depth = 128;
  const double scale = 0.0884;
  const struct {
    const char* name;
    int64_t prompt, branches, branch;
  } shapes[] = {{"causal 8K", 8192, 0, 0}, {"tree 4K prompt, 16 branches of 1K", 4096, 16, 1024}};
  for (const auto& s : shapes) {
    const int64_t prompt = s.prompt / divisor, branch = s.branch / divisor, rows = prompt + s.branches * branch;
    const double p = static_cast<double>(prompt), b = static_cast<double>(branch);
    const double pairs = p * p / 2 + static_cast<double>(s.branches) * (b * p + b * b / 2);
    const double flops = 4 * pairs * static_cast<double>(heads * depth);
    const auto options = at::dtype(type).device(at::kCUDA);
    at::Tensor q = at::randn({rows, heads, depth}, options), k = at::randn({rows, kv_heads, depth}, options);
    at::Tensor v = at::randn({rows, kv_heads, depth}, options);
    const at::Tensor grad = at::randn_like(q), ends = at::tensor(Ends(prompt, s.branches, branch), at::kInt);
    const std::string name =
        std::string(s.name) + (divisor == 1 ? "" : " / " + std::to_string(divisor)) + ", " + type_name;
    Figure((name + ", forward").c_str(), Milliseconds(divisor, [&] { return TreeAttention(q, k, v, ends, scale); }),
           flops);
    for (at::Tensor* t : {&q, &k, &v}) t->requires_grad_(true);
    Figure((name + ", forward and backward").c_str(),
           Milliseconds(divisor,
                        [&] {
                          for (at::Tensor* t : {&q, &k, &v}) t->mutable_grad().reset();
                          TreeAttention(q, k, v, ends, scale).backward(grad);
                          return k.grad();
                        }),
           3.5 * flops);
    if (s.branches == 0 && divisor == 1) {  // torch's own kernels: the stand-in has none
      const auto head_first = [](const at::Tensor& t) { return t.detach().transpose(0, 1).unsqueeze(0).contiguous(); };
      const at::Tensor q2 = head_first(q), k2 = head_first(k).repeat_interleave(2, 1),
                       v2 = head_first(v).repeat_interleave(2, 1);
      Figure((name + ", forward, torch's scaled_dot_product_attention").c_str(),
             Milliseconds(divisor, [&] { return at::scaled_dot_product_attention(q2, k2, v2, {}, 0.0, true, scale); }),
             flops);
    }
  }
}

void Decode(int64_t batch, int64_t divisor) {
  const int64_t page = 64, keys = std::max(4096 / divisor, page), heads = 16, kv_heads = 8, depth = 128;
  const auto options = at::dtype(at::kBFloat16).device(at::kCUDA);
  const int64_t pages = batch * keys / page;
  const at::Tensor q = at::randn({batch, heads, depth}, options), out = at::empty_like(q);
  const at::Tensor k = at::randn({pages, page, kv_heads, depth}, options), v = at::randn_like(k);
  std::vector<int32_t> tables(pages);
  for (int64_t p = 0; p < pages; ++p) tables[p] = static_cast<int32_t>((p * 7919) % pages);
  std::vector<AttentionSequence> sequences(batch);
  for (int64_t i = 0; i < batch; ++i) {
    sequences[i].q_begin = i;
    sequences[i].q_count = 1;
    sequences[i].q_offset = keys - 1;
    sequences[i].key_count = keys;
    sequences[i].block_table = tables.data() + i * keys / page;
  }
  const double ms = Milliseconds(divisor, [&] {
    PagedTreeAttention(q, k, v, sequences, 0.0884, out);
    return out;
  });
  std::printf(
      "{\"figure\": \"decode, %lld sequences of %lld keys, bfloat16\", \"ms\": %.3f, \"gigabytes_per_second\": %.1f}\n",
      static_cast<long long>(batch), static_cast<long long>(keys), ms, static_cast<double>(2 * k.nbytes()) / ms * 1e-6);
  std::fflush(stdout);
}

// Linear layers of exact numerics, and torch's.
void Linears(int64_t divisor) {
  const int64_t in = 4096 / divisor, out = 4096 / divisor;
  const auto options = at::dtype(at::kBFloat16).device(at::kCUDA);
  const at::Tensor weight = at::randn({out, in}, options);
  for (const int64_t rows : {1, 64, 4096}) {
    if (divisor != 1 && rows > 64) break;
    const at::Tensor x = at::randn({rows, in}, options);
    const double flops = 2.0 * static_cast<double>(rows * in * out);
    const std::string name = "linear layer, " + std::to_string(rows) + " rows, " + std::to_string(in) + " to " +
                             std::to_string(out) + ", bfloat16";
    Figure((name + ", exact").c_str(), Milliseconds(divisor, [&] { return ExactLinear(x, weight, {}, false); }), flops);
    Figure((name + ", torch").c_str(), Milliseconds(divisor, [&] { return at::linear(x, weight); }), flops);
  }
}

// Races on the device have the winners of the CPU's, in rows with a few likely entries, equally likely ones, and none.
void CheckRaces(const std::function<void(const testing::CheckResult&)>& report, bool small) {
  const int64_t rows = small ? 4 : 256;
  for (const int64_t count : {int64_t{1}, int64_t{1000}, small ? int64_t{20000} : int64_t{151936}}) {
    for (const double spread : {0.0, 3.0, 30.0}) {
      const at::Tensor logits = at::randn({rows, count}).mul_(spread);
      logits.flatten().slice(0, 0, count / 2).fill_(-INFINITY);
      const at::Tensor seeds = at::randint(std::numeric_limits<int64_t>::max(), {rows}, at::kLong);
      const auto [winners, log_probs] = RaceRows(logits, seeds);
      const auto [got, got_log_probs] = RaceRows(logits.to(at::kCUDA), seeds.to(at::kCUDA));
      const bool same = at::equal(got.to(at::kCPU), winners) && at::equal(got_log_probs.to(at::kCPU), log_probs);
      report({"race, " + std::to_string(count) + " entries, spread " + std::to_string(static_cast<int>(spread)) +
                  ": the CPU's winners",
              same ? 0.0 : 1.0, 0});
    }
  }
}

// Sums of rows with equal ids have the bits of the CPU's.
void CheckAddRows(const std::function<void(const testing::CheckResult&)>& report, bool small) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kDouble}) {
    const int64_t width = small ? 40 : 1000, count = small ? 300 : 20000;
    const at::Tensor rows = at::randn({count, width}).to(type), sums = at::randn({50, width}).to(type);
    const at::Tensor ids = at::randint(50, {count}, at::kLong).mul_(at::randint(2, {count}, at::kLong));
    const at::Tensor wanted = sums.clone(), got = sums.to(at::kCUDA);
    AddRows(wanted, ids, rows);
    AddRows(got, ids.to(at::kCUDA), rows.to(at::kCUDA));
    report({std::string("rows added in ") + c10::toString(type) + ": the CPU's bits",
            at::equal(got.to(at::kCPU), wanted) ? 0.0 : 1.0, 0});
  }
}

// The changed elements that come from the device are those that the marks name on the CPU.
void CheckChanges(const std::function<void(const testing::CheckResult&)>& report, bool small) {
  for (const at::ScalarType type : {at::kBFloat16, at::kFloat}) {
    std::vector<at::Tensor> elements, marked;
    std::vector<MarkedTensor> tensors;
    for (const int64_t count : {int64_t{1}, int64_t{64}, int64_t{16385}, small ? int64_t{60000} : int64_t{30000001}}) {
      for (const double share : {0.0, 0.02, 0.4, 1.0}) {
        elements.push_back(at::randn({count}).to(type));
        const int64_t groups = (count + 63) / 64;
        marked.push_back(at::rand({count}).lt(share));
        const at::Tensor bits = at::constant_pad_nd(marked.back().to(at::kLong), {0, groups * 64 - count});
        const at::Tensor marks = bits.view({groups, 64}).bitwise_left_shift(at::arange(64, at::kLong)).sum(1);
        tensors.push_back({elements.back().to(at::kCUDA), marks.to(at::kCUDA)});
      }
    }
    const std::vector<GatheredChanges> got = GatherChanges(tensors, small ? kChangesLeastBytes : kChangesBufferBytes);
    bool same = true;
    for (size_t i = 0; i < got.size(); ++i) {
      const at::Tensor want = elements[i].masked_select(marked[i]), marks = tensors[i].marks.to(at::kCPU);
      same = same && got[i].values.size() == want.nbytes() &&
             got[i].marks.size() == static_cast<size_t>(marks.numel()) &&
             std::memcmp(got[i].values.data(), want.const_data_ptr(), want.nbytes()) == 0 &&
             std::memcmp(got[i].marks.data(), marks.const_data_ptr(), marks.nbytes()) == 0;
    }
    report({std::string("changes gathered in ") + c10::toString(type) + ": those that the marks name", same ? 0.0 : 1.0,
            0});
  }
}

struct Options {
  bool checks = true, bench = true, small = false;
};

// Returns whether every argument after the library is known.
bool Parse(int argc, char** argv, Options& options) {
  for (int i = 2; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--no-bench") {
      options.bench = false;
    } else if (argument == "--no-checks") {
      options.checks = false;
    } else if (argument == "--small") {
      options.small = true;
    } else {
      return false;
    }
  }
  return argc >= 2;
}

int Main(int argc, char** argv) {
  Options options;
  if (!Parse(argc, argv, options)) {
    std::fprintf(stderr, "gpu_check LIBINGOT_CUDA [--no-bench] [--no-checks] [--small]\n");
    return 2;
  }
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "gpu_check: %s\n", dlerror());
    return 2;
  }
  cuda::DeviceProbe probe;
  reinterpret_cast<decltype(&ingot_cuda_probe)>(dlsym(library, cuda::kProbeSymbol))(&probe);
  std::printf("{\"device\": \"%s\", \"capability\": %d, \"cuda\": %d, \"driver\": %d, \"error\": \"%s\"}\n", probe.name,
              probe.capability, probe.runtime_version, probe.driver_version, probe.error_text);
  if (probe.torch_devices == 0) return 2;
  int failed = 0, count = 0;
  const auto report = [&](const testing::CheckResult& r) {
    ++count;
    failed += !r.ok();
    std::printf("{\"check\": \"%s\", \"ok\": %s, \"error\": %.3g, \"allowed\": %.3g}\n", r.name.c_str(),
                r.ok() ? "true" : "false", r.error, r.tolerance);
    std::fflush(stdout);
  };
  if (options.checks) {
    const at::Device device(at::kCUDA, 0);
    testing::CheckTreeAttention(device, report, options.small);
    testing::CheckLayers(device, report, options.small);
    testing::CheckPolicy(device, report, options.small);
    CheckRaces(report, options.small);
    CheckAddRows(report, options.small);
    CheckChanges(report, options.small);
    testing::CheckExact(at::Device(at::kCUDA, 0), report, options.small);
  }
  if (options.bench) {
    const int64_t divisor = options.small ? kSmaller : 1;
    Streams(at::kBFloat16, "bfloat16", divisor);
    Streams(at::kFloat, "float32", divisor);
    Linears(divisor);
    for (const int64_t batch : {1, 8, 64, 256}) {
      if (!options.small || batch <= 8) Decode(batch, divisor);
    }
  }
  std::printf("{\"checks\": %d, \"failed\": %d}\n", count, failed);
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace ingot::kernels

int main(int argc, char** argv) {
  try {
    return ingot::kernels::Main(argc, argv);
  } catch (const std::exception& error) {
    std::printf("{\"threw\": true}\n");
    std::fprintf(stderr, "gpu_check: %s\n", error.what());
    return 1;
  }
}
