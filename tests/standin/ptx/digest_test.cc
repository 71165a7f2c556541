// The kernel that hashes a tensor's slices, on the machine: the digests of XXH3 on the CPU.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "base/checksum_secret.h"
#include "kernels/cuda/digest_args.h"
#include "standin/ptx/attention_machine.h"
#include "standin/ptx/compile_ptx.h"
#include "trials.h"

namespace ingot::standin::ptx {
namespace {

namespace cuda = kernels::cuda;

constexpr char kDigest[] = "_ZN5ingot7kernels4cuda12DigestKernelENS1_10DigestArgsE";

const std::string& DigestPtx() {
  static const std::string text = CompilePtx(FindNvcc(), "src/kernels/cuda/digest.cu", "");
  return text;
}

std::vector<uint64_t> Keys() {
  const std::span<const std::byte> secret = base::ChecksumSecret();
  std::vector<uint64_t> keys;
  const auto add = [&](size_t offset, int count) {
    for (int i = 0; i < count; ++i) {
      uint64_t& key = keys.emplace_back();
      std::memcpy(&key, secret.data() + offset + 8 * static_cast<size_t>(i), sizeof(key));
    }
  };
  add(0, cuda::kDigestStripeKeys);
  add(121, cuda::kDigestLastKeys);
  add(11, cuda::kDigestMergeKeys);
  return keys;
}

std::vector<uint8_t> RandomBytes(uint64_t seed, int64_t size) {
  std::mt19937_64 rng(seed);
  std::vector<uint8_t> bytes(static_cast<size_t>(size));
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(rng());
  return bytes;
}

std::vector<uint64_t> Digests(Machine& m, const std::vector<uint8_t>& bytes) {
  cuda::DigestArgs args{};
  args.bytes = m.Put(bytes);
  args.size = std::ssize(bytes);
  args.digests = m.Put(std::vector<uint64_t>(static_cast<size_t>(args.slices()), 55));
  args.keys = m.Put(Keys());
  const auto blocks = static_cast<unsigned>((args.slices() * 32 + cuda::kDigestThreads - 1) / cuda::kDigestThreads);
  m.Run(kDigest, {{blocks, 1, 1}, {cuda::kDigestThreads, 1, 1}, 0}, args);
  return m.Get(args.digests, static_cast<size_t>(args.slices()));
}

class PtxDigest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (FindNvcc().empty()) GTEST_SKIP() << "no CUDA compiler: scripts/setup.sh installs it";
  }
};

// Sizes around a stripe's, a block's, and a slice's, and the least.
TEST_F(PtxDigest, EqualsTheCpus) {
  constexpr int64_t kSlice = cuda::kDigestSliceBytes;
  const std::vector<int64_t> sizes = {2,    240,  242,  256,        1022,       1024,         1026,
                                      1088, 2046, 4100, kSlice - 2, kSlice + 2, kSlice + 242, 5 * kSlice + 1000};
  for (size_t i = 0; i < sizes.size(); ++i) {
    const std::vector<uint8_t> bytes = RandomBytes(i, sizes[i]);
    Machine m(DigestPtx());
    m.options.seed = i;
    const std::vector<uint64_t> digests = Digests(m, bytes);
    for (size_t slice = 0; slice < digests.size(); ++slice) {
      const std::span rest = std::as_bytes(std::span(bytes)).subspan(slice * kSlice);
      const std::span of = rest.first(std::min<size_t>(kSlice, rest.size()));
      const bool hashed = std::ssize(of) >= cuda::kDigestLeastBytes;
      EXPECT_EQ(digests[slice], hashed ? base::Checksum64(of) : 55) << sizes[i] << " bytes, slice " << slice;
    }
    ExpectNoReport(m);
  }
}

TEST_F(PtxDigest, ReadsEachByteOnce) {
  const std::vector<uint8_t> bytes = RandomBytes(1, 2 * cuda::kDigestSliceBytes);
  Machine m(DigestPtx());
  Digests(m, bytes);
  const double ratio = 32 * static_cast<double>(m.global_sectors[kDigest]) / static_cast<double>(bytes.size());
  RecordProperty("bytes_over_least", std::to_string(ratio));
  EXPECT_LT(ratio, 1.05);
}

}  // namespace
}  // namespace ingot::standin::ptx
