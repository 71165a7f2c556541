// The codec of weight deltas: changed bf16 words as gaps and distances, compared with the XOR of all words with zstd.
//
//   cmake --preset release -DINGOT_BUILD_BENCHMARKS=ON && ninja -C build/release weights_bench
//   build/release/benchmarks/weights_bench                      versions made up, of 134 MB
//   build/release/benchmarks/weights_bench STEP-1 STEP-2 ...    model folders of a run, each against the previous one
//
// Made-up words are normally distributed, with a standard deviation of 0.02; the changed ones move by one representable
// number, every tenth by two to five. Model folders are rounded to bf16. One thread; the three codings take turns, nine
// rounds. GB/s are of the whole version, changed or not: the median over the thread's CPU time and the least and the
// greatest round. "marked" encodes with the optimizer's marks, "compared" finds the changes itself; both apply alike.
// Applying makes a whole new version, of memory used before, and verifies its checksums. Not measured: the network, the
// copy of the parameters, several threads. A line is of the optimizer's rounding, which makes the marks.
//
// The last table (the only one with --steps) is of versions that AdamW makes: its step, the version made from the
// parameters' memory, a copy of them for comparison, encoding and applying the delta, and twice the time of a copy of
// the changed bytes.
#include <time.h>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/TensorIndexing.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "model/parameters.h"
#include "trainer/adamw.h"
#include "trainer/weights_of.h"
#include "weights/byte_planes.h"
#include "weights/delta.h"
#include "weights/zstd_frame.h"

namespace {

using namespace ingot;
using weights::Snapshot;
using Version = std::shared_ptr<const Snapshot>;

constexpr int kRounds = 9;

double CpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

template <typename T>
T OrDie(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  std::fprintf(stderr, "%s\n", value.status().ToString().c_str());
  std::exit(1);
}

struct Pair {
  std::string name;
  Version base, target;  // the target has its marks
};

// `target` with the marks that the optimizer would have made.
Version Marked(const Snapshot& base, const Snapshot& target) {
  auto changes = std::make_shared<weights::Changes>();
  changes->base_checksum = base.checksum();
  std::vector<weights::TensorView> views;
  for (size_t i = 0; i < target.size(); ++i) {
    views.push_back(target.view(i));
    weights::ChangeMask mask(static_cast<int64_t>(target.bytes(i).size()) / 2);
    weights::CompareWords(base.bytes(i).data(), target.bytes(i).data(), mask.words(), mask.entries().data());
    changes->masks[views.back().name] = std::move(mask);
  }
  return OrDie(Snapshot::Copy(target.version(), views, {.changes = changes}));
}

Pair MakeUp(double density) {
  constexpr int kTensors = 16;
  constexpr size_t kWords = size_t{1} << 22;
  std::mt19937_64 rng(17);
  std::normal_distribution<float> normal(0, 0.02f);
  std::vector<std::vector<uint16_t>> words(kTensors, std::vector<uint16_t>(kWords));
  for (auto& tensor : words) {
    for (uint16_t& word : tensor) {
      const float value = normal(rng);
      uint32_t bits;
      std::memcpy(&bits, &value, sizeof(bits));
      word = static_cast<uint16_t>(bits >> 16);
    }
  }
  const auto take = [&](int64_t version) {
    std::vector<weights::TensorView> views;
    for (int i = 0; i < kTensors; ++i) {
      views.push_back({"t" + std::to_string(i),
                       "BF16",
                       {static_cast<int64_t>(kWords)},
                       std::as_bytes(std::span(words[static_cast<size_t>(i)]))});
    }
    return OrDie(Snapshot::Copy(version, views));
  };
  Pair pair;
  pair.base = take(1);
  std::geometric_distribution<size_t> gap(density);
  for (auto& tensor : words) {
    for (size_t i = gap(rng); i < kWords; i += 1 + gap(rng)) {
      const int length = rng() % 10 == 0 ? 2 + static_cast<int>(rng() % 4) : 1;
      tensor[i] = static_cast<uint16_t>(rng() % 2 == 0 ? tensor[i] + length : tensor[i] - length);
    }
  }
  pair.target = Marked(*pair.base, *take(2));
  char name[32];
  std::snprintf(name, sizeof(name), "%.0f %%", 100 * density);
  pair.name = name;
  return pair;
}

Version Load(const std::string& folder, int64_t version) {
  const model::ModelFolder loaded = OrDie(model::LoadModelDir(folder));
  std::map<std::string, at::Tensor> rounded;
  for (const auto& [name, tensor] : loaded.parameters.tensors()) rounded[name] = tensor.to(at::kBFloat16);
  return OrDie(trainer::SnapshotOf(version, rounded));
}

// A frame of all words XOR the base's, for each tensor: the coding of changes before distances.
struct XorZstd {
  std::vector<std::string> Encode(const Snapshot& base, const Snapshot& target) {
    std::vector<std::string> frames;
    for (size_t i = 0; i < target.size(); ++i) {
      const size_t size = target.bytes(i).size();
      planes.resize(size);
      weights::XorToPlanes(base.bytes(i).data(), target.bytes(i).data(), static_cast<int64_t>(size) / 2, 2,
                           planes.data());
      std::string& frame = frames.emplace_back();
      if (!zstd.Compress(planes, 1, size + 1024, frame)) std::exit(1);
    }
    return frames;
  }
  void Apply(const Snapshot& base, const std::vector<std::string>& frames, weights::BufferPool& buffers) {
    std::vector<std::shared_ptr<std::byte[]>> made;
    for (size_t i = 0; i < base.size(); ++i) {
      const size_t size = base.bytes(i).size();
      planes.resize(size);
      if (!zstd.Decompress(frames[i], planes).ok()) std::exit(1);
      made.push_back(OrDie(buffers.Acquire(static_cast<int64_t>(size))));
      weights::XorFromPlanes(base.bytes(i).data(), planes.data(), static_cast<int64_t>(size) / 2, 2, made.back().get());
      checksum ^= base::Checksum64({made.back().get(), size});
    }
  }
  weights::ZstdFrame zstd;
  std::vector<std::byte> planes;
  uint64_t checksum = 0;  // keeps the work
};

// Bytes per second of each round, as the median and the range in GB/s.
std::string Rate(std::vector<double> seconds, int64_t bytes) {
  std::sort(seconds.begin(), seconds.end());
  const auto rate = [&](double s) { return 1e-9 * static_cast<double>(bytes) / s; };
  char text[64];
  std::snprintf(text, sizeof(text), "%6.2f (%.2f - %.2f)", rate(seconds[seconds.size() / 2]), rate(seconds.back()),
                rate(seconds.front()));
  return text;
}

void Run(const Pair& pair) {
  const Snapshot &base = *pair.base, &target = *pair.target;
  std::vector<weights::TensorView> views;
  for (size_t i = 0; i < target.size(); ++i) views.push_back(target.view(i));
  const Version unmarked = OrDie(Snapshot::Copy(target.version(), views));
  const weights::CodecOptions options{.buffers = std::make_shared<weights::BufferPool>()};
  XorZstd xor_zstd;
  weights::BufferPool buffers;
  std::array<std::vector<double>, 5> seconds;
  const auto time = [&](int what, const std::function<void()>& work) {
    const double start = CpuSeconds();
    work();
    seconds[static_cast<size_t>(what)].push_back(CpuSeconds() - start);
  };
  weights::EncodedDelta delta;
  std::vector<std::string> frames;
  for (int round = 0; round <= kRounds; ++round) {
    time(0, [&] { delta = OrDie(weights::Encode(&base, target, false, options)); });
    time(1, [&] { frames = xor_zstd.Encode(base, target); });
    time(2, [&] { delta = OrDie(weights::Encode(&base, *unmarked, false, options)); });
    time(3, [&] { OrDie(weights::Apply(pair.base, delta, options)); });
    time(4, [&] { xor_zstd.Apply(base, frames, buffers); });
    if (round == 0) {  // memory is touched for the first time
      for (auto& all : seconds) all.clear();
    }
  }
  int64_t payload = 0, xor_bytes = 0;
  for (const auto& tensor : delta.tensors) payload += static_cast<int64_t>(tensor.payload().size());
  for (const std::string& frame : frames) xor_bytes += static_cast<int64_t>(frame.size());
  const int64_t bytes = target.total_bytes();
  const auto line = [&](const char* coding, int64_t sent, const std::string& encode, const std::string& apply) {
    std::printf("%-12s %8.4f %%  %-9s %10lld  %7.1f  %-26s %-26s\n", pair.name.c_str(),
                100 * static_cast<double>(delta.changed_elements) / static_cast<double>(delta.total_elements), coding,
                static_cast<long long>(sent),
                static_cast<double>(bytes) / static_cast<double>(std::max<int64_t>(sent, 1)), encode.c_str(),
                apply.c_str());
  };
  line("marked", payload, Rate(seconds[0], bytes), Rate(seconds[3], bytes));
  line("compared", payload, Rate(seconds[2], bytes), Rate(seconds[3], bytes));
  line("xor+zstd", xor_bytes, Rate(seconds[1], bytes), Rate(seconds[4], bytes));
  std::fflush(stdout);
}

// The optimizer's rounding of its fp32 masters, with marks and without, where 1 % of the words change.
void RunRounding() {
  constexpr int64_t kWords = int64_t{1} << 26;
  at::set_num_threads(1);
  const at::Tensor master = at::randn({kWords}).mul_(0.02);
  const at::Tensor moved = master.clone();
  const auto every_hundredth = at::indexing::Slice(0, at::indexing::None, 100);
  moved.index({every_hundredth}).mul_(1.02);
  const at::Tensor plain = master.to(at::kBFloat16), marked = plain.clone();
  weights::ChangeMask mask(kWords);
  std::array<std::vector<double>, 2> seconds;
  for (int round = 0; round <= kRounds; ++round) {
    const at::Tensor& from = round % 2 == 0 ? moved : master;
    double start = CpuSeconds();
    plain.copy_(from);
    seconds[0].push_back(CpuSeconds() - start);
    start = CpuSeconds();
    weights::RoundToBfloat16(from.const_data_ptr<float>(), kWords, static_cast<uint16_t*>(marked.mutable_data_ptr()),
                             static_cast<uint16_t*>(marked.mutable_data_ptr()), mask.entries().data());
    seconds[1].push_back(CpuSeconds() - start);
  }
  std::printf("rounding, GB/s of bf16: torch's copy %s, with marks %s\n", Rate(seconds[0], 2 * kWords).c_str(),
              Rate(seconds[1], 2 * kWords).c_str());
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// The path of a version from the end of an optimizer's step, for `tensors` parameters of 2^22 words: its parts, in ms.
void RunStep(int64_t tensors, double share) {
  constexpr int64_t kWords = int64_t{1} << 22;
  at::set_num_threads(1);
  std::map<std::string, at::Tensor> parameters;
  for (int64_t i = 0; i < tensors; ++i) {
    parameters["t" + std::to_string(100 + i)] = at::randn({kWords}).mul_(0.02).to(at::kBFloat16).requires_grad_(true);
  }
  trainer::OptimizerOptions options;
  options.weight_decay = 0;
  options.beta1 = options.beta2 = 0;  // words without a gradient stay
  trainer::AdamW optimizer(options, parameters);
  const weights::CodecOptions codec{.buffers = std::make_shared<weights::BufferPool>()};
  weights::BufferPool copies;
  Version before, applied;
  std::array<std::vector<double>, 6> seconds;
  int64_t changed = 0;
  constexpr int kSteps = 6;
  for (int step = 0; step < kSteps; ++step) {
    for (auto& [name, parameter] : parameters) {
      parameter.mutable_grad() = at::rand({kWords}).le(share).to(at::kBFloat16);
    }
    std::array<double, 6> took{};
    const auto time = [&](size_t what, const auto& work) {
      const double start = CpuSeconds();
      work();
      took[what] = CpuSeconds() - start;
    };
    time(0, [&] { optimizer.Step(step % 2 == 0 ? 0.01 : -0.01, 1.0); });
    optimizer.ZeroGrad();
    Version now;
    time(1, [&] {
      auto rounded = optimizer.TakeRounded();
      auto changes = std::make_shared<weights::Changes>(before == nullptr ? 0 : before->checksum());
      for (auto& [name, one] : rounded) changes->masks[name] = std::move(one.changes);
      now = OrDie(trainer::SnapshotOf(step, parameters, {.changes = changes}, rounded));
    });
    std::vector<weights::TensorView> views;
    for (size_t i = 0; i < now->size(); ++i) {
      const weights::TensorView view = now->view(i);
      views.push_back({view.name, view.dtype, view.shape, view.bytes});
    }
    time(2, [&] { OrDie(weights::Snapshot::Copy(step, views, {.buffers = &copies})); });
    if (before == nullptr) {
      applied = now;
    } else {
      weights::EncodedDelta delta;
      time(3, [&] { delta = OrDie(weights::Encode(before.get(), *now, false, codec)); });
      time(4, [&] { applied = OrDie(weights::Apply(applied, delta, codec)); });
      changed = 2 * delta.changed_elements;
      const at::Tensor from = at::zeros({kWords}, at::kBFloat16), to = from.clone();
      time(5, [&] {
        for (int64_t i = 0; i < tensors; ++i) to.copy_(from);
      });
    }
    if (step >= 2) {  // memory was touched before
      for (size_t i = 0; i < took.size(); ++i) seconds[i].push_back(took[i]);
    }
    before = std::move(now);
  }
  const auto ms = [&](size_t what) { return 1e3 * Median(seconds[what]); };
  const double all = static_cast<double>(before->total_bytes());
  std::printf("%5.0f MB  %6.2f %%  %8.1f  %8.3f  %8.1f  %8.1f  %8.1f  %10.3f\n", 1e-6 * all,
              100 * static_cast<double>(changed) / all, ms(0), ms(1), ms(2), ms(3), ms(4),
              2 * ms(5) * static_cast<double>(changed) / all);
  std::fflush(stdout);
}

void RunSteps() {
  std::printf("ms of CPU time     changed      step  snapshot  (copied)    encode     apply  2x changed\n");
  for (const int64_t tensors : {16, 48}) {
    for (const double share : {0.01, 0.06, 1.0}) RunStep(tensors, share);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "--steps") {
    RunSteps();
    return 0;
  }
  std::printf("%-12s %10s  %-9s %10s  %7s  %-26s %-26s\n", "version", "changed", "coding", "bytes", "ratio",
              "encode GB/s (range)", "apply GB/s (range)");
  if (argc == 1) {
    for (const double density : {0.01, 0.02, 0.06, 0.12}) Run(MakeUp(density));
    RunRounding();
    RunSteps();
    return 0;
  }
  Version before;
  for (int i = 1; i < argc; ++i) {
    const std::string folder = argv[i];
    Version now = Load(folder, i);
    if (before != nullptr) Run({folder.substr(folder.rfind('/') + 1), before, Marked(*before, *now)});
    before = std::move(now);
  }
  return 0;
}
