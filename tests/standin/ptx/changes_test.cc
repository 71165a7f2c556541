// The kernels that gather changed elements, on the machine: the lists of a loop over the marks, for random marks, none,
// and all, and sizes around a group's and a block's.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/cuda/changes_args.h"
#include "standin/ptx/attention_machine.h"
#include "standin/ptx/compile_ptx.h"
#include "trials.h"

namespace ingot::standin::ptx {
namespace {

namespace cuda = kernels::cuda;

constexpr char kCount[] = "_ZN5ingot7kernels4cuda18CountChangesKernelENS1_16CountChangesArgsE";
constexpr char kScan[] = "_ZN5ingot7kernels4cuda17ScanChangesKernelENS1_15ScanChangesArgsE";
template <typename Element>
std::string GatherKernel() {
  const std::string type = sizeof(Element) == 2 ? "t" : "j";
  return "_ZN5ingot7kernels4cuda19GatherChangesKernelI" + type + "EEvNS1_17GatherChangesArgsE";
}
constexpr int64_t kOfBlock = int64_t{cuda::kChangesThreads} * cuda::kChangesGroup;

const std::string& ChangesPtx() {
  static const std::string text = CompilePtx(FindNvcc(), "src/kernels/cuda/changes.cu", "");
  return text;
}

template <typename Element>
struct Tensor {
  std::vector<Element> elements;
  std::vector<uint64_t> marks;

  int64_t count() const { return std::ssize(elements); }
  int64_t blocks() const { return (count() + kOfBlock - 1) / kOfBlock; }
};

// Marks a share of the elements, of which 0 is none. Bits after the last element are set in some tensors.
template <typename Element>
Tensor<Element> RandomTensor(uint64_t seed, int64_t count, double share) {
  std::mt19937_64 rng(seed);
  Tensor<Element> t;
  t.marks.resize(static_cast<size_t>((count + 63) / 64));
  std::bernoulli_distribution marked(share);
  for (int64_t i = 0; i < count; ++i) {
    t.elements.push_back(static_cast<Element>(rng()));
    if (marked(rng)) t.marks[i / 64] |= uint64_t{1} << (i % 64);
  }
  if (seed % 2 == 1 && count % 64 != 0) t.marks.back() |= ~uint64_t{0} << (count % 64);
  return t;
}

template <typename Element>
struct Lists {
  std::vector<uint8_t> counts, places;
  std::vector<Element> values;
  bool operator==(const Lists&) const = default;
};

// The definition.
template <typename Element>
Lists<Element> Want(const Tensor<Element>& t, int64_t first, int64_t end) {
  Lists<Element> lists;
  for (int64_t group = first * cuda::kChangesThreads; group < end * cuda::kChangesThreads; ++group) {
    if (group * 64 >= t.count()) break;
    uint64_t marks = t.marks[group];
    if (const int64_t left = t.count() - group * 64; left < 64) marks &= (uint64_t{1} << left) - 1;
    const int count = std::popcount(marks);
    lists.counts.push_back(static_cast<uint8_t>(count));
    if (count >= cuda::kChangesListed) {
      for (int i = 0; i < 8; ++i) lists.places.push_back(static_cast<uint8_t>(marks >> (8 * i)));
    }
    for (int bit = 0; bit < 64; ++bit) {
      if ((marks >> bit & 1) == 0) continue;
      if (count < cuda::kChangesListed) lists.places.push_back(static_cast<uint8_t>(bit));
      lists.values.push_back(t.elements[group * 64 + bit]);
    }
  }
  return lists;
}

uint64_t SizeOf(const auto& lists) { return uint64_t{lists.values.size()} << 32 | lists.places.size(); }

template <typename Element>
std::vector<uint64_t> Counted(Machine& m, const Tensor<Element>& t) {
  const int64_t blocks = t.blocks();
  uint64_t* const sizes = m.Put(std::vector<uint64_t>(static_cast<size_t>(blocks + 1), 77));
  const cuda::CountChangesArgs args{{m.Put(t.marks), t.count()}, sizes};
  if (blocks > 0) m.Run(kCount, {{static_cast<unsigned>(blocks), 1, 1}, {cuda::kChangesThreads, 1, 1}, 0}, args);
  m.Run(kScan, {{1, 1, 1}, {cuda::kChangesScanThreads, 1, 1}, 0}, cuda::ScanChangesArgs{sizes, blocks});
  return m.Get(sizes, static_cast<size_t>(blocks + 1));
}

// The lists of blocks [first, end), in buffers of exactly their sizes: the machine reports any other access.
template <typename Element>
Lists<Element> Gathered(Machine& m, const Tensor<Element>& t, const std::vector<uint64_t>& starts, int64_t first,
                        int64_t end, int64_t missing = 0) {
  const Lists<Element> want = Want(t, first, end);
  cuda::GatherChangesArgs args{};
  args.marks = {m.Put(t.marks), t.count()};
  args.elements = m.Put(t.elements);
  args.starts = m.Put(starts);
  args.first = first;
  args.counts = m.Put(std::vector<uint8_t>(want.counts.size(), 99));
  args.places_limit = std::max<int64_t>(0, std::ssize(want.places) - missing);
  args.values_limit = std::max<int64_t>(0, std::ssize(want.values) - missing);
  args.places = m.Put(std::vector<uint8_t>(static_cast<size_t>(args.places_limit), 99));
  auto* const values = m.Put(std::vector<Element>(static_cast<size_t>(args.values_limit), 99));
  args.values = values;
  m.Run(GatherKernel<Element>(), {{static_cast<unsigned>(end - first), 1, 1}, {cuda::kChangesThreads, 1, 1}, 0}, args);
  return {m.Get(args.counts, want.counts.size()), m.Get(args.places, static_cast<size_t>(args.places_limit)),
          m.Get(values, static_cast<size_t>(args.values_limit))};
}

class PtxChanges : public ::testing::Test {
 protected:
  void SetUp() override {
    if (FindNvcc().empty()) GTEST_SKIP() << "no CUDA compiler: scripts/setup.sh installs it";
  }

  template <typename Element>
  void ExpectTheDefinition(uint64_t seed, int64_t count, double share) {
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << count << " elements, share " << share);
    const Tensor<Element> t = RandomTensor<Element>(seed, count, share);
    Machine m(ChangesPtx());
    m.options.seed = seed;
    const std::vector<uint64_t> starts = Counted(m, t);
    uint64_t sum = 0;
    for (int64_t block = 0; block < t.blocks(); ++block) {
      ASSERT_EQ(starts[block], sum) << block;
      sum += SizeOf(Want(t, block, block + 1));
    }
    ASSERT_EQ(starts[t.blocks()], sum);
    const int64_t first = t.blocks() / 3, end = t.blocks() - (t.blocks() > 3 ? 1 : 0);
    EXPECT_TRUE(Gathered(m, t, starts, 0, t.blocks()) == Want(t, 0, t.blocks()));
    EXPECT_TRUE(Gathered(m, t, starts, first, end) == Want(t, first, end)) << "a range";
    ExpectNoReport(m);
  }
};

// From one element to four blocks, and shares that give lists of places, of marks, and of both.
TEST_F(PtxChanges, EqualTheDefinition) {
  constexpr std::array<int64_t, 9> kCounts = {
      1, 63, 64, 65, kOfBlock - 1, kOfBlock, kOfBlock + 1, kOfBlock + 64, 4 * kOfBlock - 40};
  constexpr std::array<double, 5> kShares = {0.01, 0.12, 0.5, 0, 1};
  for (int i = 0; i < Trials(18, 180) && !HasFailure(); ++i) {
    const int64_t count = kCounts[i % kCounts.size()];
    const double share = kShares[(i + i / 9) % kShares.size()];
    if (i % 2 == 0) {
      ExpectTheDefinition<uint16_t>(i, count, share);
    } else {
      ExpectTheDefinition<uint32_t>(i, count, share);
    }
  }
}

// More blocks than the scan has threads: 2,500, with sizes whose sums pass 2^31 values.
TEST_F(PtxChanges, TheScanHasNoLimitOfBlocks) {
  std::mt19937_64 rng(3);
  std::vector<uint64_t> sizes;
  for (int i = 0; i < 2500; ++i) sizes.push_back(rng() % 1500000 << 32 | rng() % 1500000);
  sizes.push_back(0);
  Machine m(ChangesPtx());
  uint64_t* const at = m.Put(sizes);
  m.Run(kScan, {{1, 1, 1}, {cuda::kChangesScanThreads, 1, 1}, 0}, cuda::ScanChangesArgs{at, 2500});
  const std::vector<uint64_t> got = m.Get(at, sizes.size());
  uint64_t sum = 0;
  for (size_t i = 0; i < sizes.size(); sum += sizes[i++]) ASSERT_EQ(got[i], sum) << i;
  ExpectNoReport(m);
}

// Buffers that are too small keep what lies behind them.
TEST_F(PtxChanges, NothingIsWrittenPastTheLimits) {
  for (const double share : {0.05, 0.6}) {
    const auto t = RandomTensor<uint16_t>(4, kOfBlock + 100, share);
    Machine m(ChangesPtx());
    const auto starts = Counted(m, t);
    const Lists<uint16_t> want = Want(t, 0, 2), got = Gathered(m, t, starts, 0, 2, /*missing=*/3);
    EXPECT_EQ(got.counts, want.counts);
    EXPECT_TRUE(std::equal(got.places.begin(), got.places.end(), want.places.begin()));
    EXPECT_TRUE(std::equal(got.values.begin(), got.values.end(), want.values.begin()));
    ExpectNoReport(m);
  }
}

// Without any one of its barriers, a kernel races or gives other sums.
TEST_F(PtxChanges, EachBarrierIsNeeded) {
  const auto t = RandomTensor<uint16_t>(6, 3 * kOfBlock, 0.1);
  for (const std::string& kernel : {std::string(kCount), std::string(kScan), GatherKernel<uint16_t>()}) {
    const std::vector<size_t> places = PlacesOf(ChangesPtx(), kernel, "bar.sync");
    ASSERT_FALSE(places.empty()) << kernel;
    for (const size_t place : places) {
      Machine m(Without(ChangesPtx(), place));
      std::vector<uint64_t> sizes(3000, uint64_t{1} << 32 | 1);
      uint64_t* const at = m.Put(sizes);
      m.Run(kScan, {{1, 1, 1}, {cuda::kChangesScanThreads, 1, 1}, 0}, cuda::ScanChangesArgs{at, 2999});
      const auto starts = Counted(m, t);
      Gathered(m, t, starts, 0, 3);
      EXPECT_FALSE(m.reports.empty()) << kernel << " without the barrier at " << place;
    }
  }
}

// One group in two has a change: reads its elements' sectors, and no others.
TEST_F(PtxChanges, ReadsOnlyGroupsWithChanges) {
  constexpr int64_t kGroups = 1024;
  Tensor<uint16_t> t = RandomTensor<uint16_t>(8, kGroups * 64, 0);
  for (int64_t group = 0; group < kGroups; group += 2) t.marks[group] = uint64_t{1} << (group % 64);
  Machine m(ChangesPtx());
  const auto starts = Counted(m, t);
  Gathered(m, t, starts, 0, t.blocks());
  const auto bytes = 32 * static_cast<double>(m.global_sectors[GatherKernel<uint16_t>()]);
  // Marks, counts, and per change a sector each to read and to write its value and its place.
  EXPECT_LT(bytes, kGroups * (8 + 1) + kGroups / 2.0 * 3 * 32 + 4096);
}

}  // namespace
}  // namespace ingot::standin::ptx
