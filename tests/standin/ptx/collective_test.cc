// Exchange among lanes and threads: shfl, vote, match, redux, barriers that reduce, atomics, and lanes that part.
#include <gtest/gtest.h>

#include <functional>

#include "standin/ptx/test_kernel.h"

namespace ingot::standin::ptx {
namespace {

// %r4 of each thread after `body`. %rd1 is a buffer of zeros, and %r1 the shared buffer of 256 bytes.
std::vector<uint32_t> Results(const std::string& body, unsigned threads = 32, uint64_t seed = 0) {
  TestMemory memory;
  const uint64_t out = memory.Allocate(threads * 4, 256), zeros = memory.Allocate(256, 256);
  Options options;
  options.seed = seed;
  const Outcome outcome =
      RunText(KernelText(".shared .align 16 .b8 buffer[256];\nmov.u32 %r1, buffer;\nmov.u32 %r4, 0;\n" + body +
                         "\nmul.wide.u32 %rd5, %r0, 4;\nadd.u64 %rd5, %rd0, %rd5;\nst.global.u32 [%rd5], %r4;\n"),
              memory, {out, zeros}, {{1, 1, 1}, {threads, 1, 1}, 0}, options);
  for (const Report& r : outcome.reports) ADD_FAILURE() << r.kind << ": " << r.text;
  return memory.Get<uint32_t>(out, threads);
}

void Expect(const std::string& body, const std::function<uint32_t(uint32_t)>& want, unsigned threads = 32) {
  SCOPED_TRACE(body);
  for (const uint64_t seed : {0, 1}) {
    const std::vector<uint32_t> got = Results(body, threads, seed);
    for (uint32_t i = 0; i < threads; ++i) EXPECT_EQ(got[i], want(i)) << "thread " << i;
  }
}

// Lanes out of range keep their own value, and the predicate tells.
TEST(PtxCollective, Shuffles) {
  const std::string predicate = "@%p1 add.u32 %r4, %r4, 100;\n";
  Expect("shfl.sync.bfly.b32 %r4|%p1, %r0, 5, 31, 0xffffffff;\n" + predicate, [](uint32_t i) { return (i ^ 5) + 100; });
  Expect("shfl.sync.idx.b32 %r4, %r0, 7, 31, -1;\n", [](uint32_t) { return 7; });
  Expect("shfl.sync.up.b32 %r4|%p1, %r0, 3, 0, -1;\n" + predicate, [](uint32_t i) { return i < 3 ? i : i - 3 + 100; });
  Expect("shfl.sync.down.b32 %r4|%p1, %r0, 3, 31, -1;\n" + predicate,
         [](uint32_t i) { return i > 28 ? i : i + 3 + 100; });
  // Segments of 8 lanes: __shfl_down_sync(..., 8) and __shfl_sync(..., 8).
  Expect("shfl.sync.down.b32 %r4|%p1, %r0, 3, 6175, -1;\n" + predicate,
         [](uint32_t i) { return i % 8 > 4 ? i : i + 3 + 100; });
  Expect("shfl.sync.idx.b32 %r4, %r0, 2, 6175, -1;\n", [](uint32_t i) { return i / 8 * 8 + 2; });
}

TEST(PtxCollective, VotesMatchesAndReduces) {
  const std::string odd = "and.b32 %r5, %r0, 1;\nsetp.ne.u32 %p1, %r5, 0;\n", third = "rem.u32 %r5, %r0, 3;\n";
  Expect(odd + "vote.sync.ballot.b32 %r4, %p1, -1;\n", [](uint32_t) { return 0xaaaaaaaa; });
  Expect(odd + "vote.sync.any.pred %p2, %p1, -1;\nselp.b32 %r4, 1, 0, %p2;\n", [](uint32_t) { return 1; });
  Expect(odd + "vote.sync.all.pred %p2, !%p1, -1;\nselp.b32 %r4, 1, 0, %p2;\n", [](uint32_t) { return 0; });
  Expect(third + "match.any.sync.b32 %r4, %r5, -1;\n", [](uint32_t i) {
    return (i % 3 == 2 ? 0x24924924u : i % 3 == 1 ? 0x92492492u : 0x49249249u);
  });
  Expect("match.all.sync.b32 %r4|%p1, 9, -1;\n@!%p1 mov.u32 %r4, 0;\n", [](uint32_t) { return 0xffffffff; });
  Expect("redux.sync.add.u32 %r4, %r0, -1;\n", [](uint32_t) { return 496; });
  Expect("sub.u32 %r5, 10, %r0;\nredux.sync.min.s32 %r4, %r5, -1;\n",
         [](uint32_t) { return static_cast<uint32_t>(-21); });
  // Two masks in one instruction.
  Expect("setp.lt.u32 %p1, %r0, 16;\nselp.b32 %r5, 0xffff, 0xffff0000, %p1;\nredux.sync.max.u32 %r4, %r0, %r5;\n",
         [](uint32_t i) { return i < 16 ? 15 : 31; });
  Expect("activemask.b32 %r4;\n", [](uint32_t) { return 0xffffffff; });
}

TEST(PtxCollective, BarriersReduce) {
  const std::string even = "and.b32 %r5, %r0, 1;\nsetp.eq.u32 %p1, %r5, 0;\n";
  Expect(even + "barrier.cta.red.popc.aligned.u32 %r4, 0, %p1;\n", [](uint32_t) { return 48; }, 96);
  Expect(even + "bar.red.or.pred %p2, 0, %p1;\nselp.b32 %r4, 1, 0, %p2;\n", [](uint32_t) { return 1; }, 96);
  Expect(even + "bar.red.and.pred %p2, 2, 96, %p1;\nselp.b32 %r4, 1, 0, %p2;\n", [](uint32_t) { return 0; }, 96);
}

TEST(PtxCollective, Atomics) {
  const std::string last = "bar.sync 0;\nld.global.u32 %r4, [%rd1];\n";
  Expect("atom.global.add.u32 %r5, [%rd1], 2;\n" + last, [](uint32_t) { return 192; }, 96);
  Expect(
      "red.global.add.f32 [%rd1], 0f3F000000;\nbar.sync 0;\nld.global.f32 %f1, [%rd1];\ncvt.rzi.u32.f32 %r4, %f1;\n",
      [](uint32_t) { return 48; }, 96);
  Expect("red.relaxed.gpu.global.max.s32 [%rd1], %r0;\n" + last, [](uint32_t) { return 95; }, 96);
  Expect("atom.global.inc.u32 %r5, [%rd1], 9;\n" + last, [](uint32_t) { return 6; }, 96);
  Expect("atom.cas.b32 %r5, [%rd1], 0, 5;\n" + last, [](uint32_t) { return 5; }, 96);
  Expect(
      "atom.global.exch.b64 %rd6, [%rd1+8], 7;\nbar.sync 0;\nld.global.u32 %r4, [%rd1+8];\n",
      [](uint32_t) { return 7; }, 96);
  Expect(
      "setp.eq.u32 %p1, %r0, 0;\n@%p1 st.shared.u32 [%r1], 0;\nbar.sync 0;\natom.shared.add.u32 %r5, [%r1], "
      "1;\nbar.sync 0;\nld.shared.u32 %r4, [%r1];\n",
      [](uint32_t) { return 96; }, 96);
}

// Each lane runs its own number of rounds, and all meet again.
TEST(PtxCollective, LanesPartAndMeet) {
  Expect(
      "mov.u32 %r5, 0;\nLOOP:\nadd.u32 %r4, %r4, %r5;\nadd.u32 %r5, %r5, 1;\nsetp.le.u32 %p1, %r5, %r0;\n@%p1 bra "
      "LOOP;\nredux.sync.add.u32 %r6, 1, -1;\nadd.u32 %r4, %r4, %r6;\n",
      [](uint32_t i) { return i * (i + 1) / 2 + 32; });
  Expect(
      "setp.lt.u32 %p1, %r0, 8;\n@%p1 bra LOW;\nmov.u32 %r4, 1;\nsetp.lt.u32 %p2, %r0, 20;\n@%p2 bra MIDDLE;\nadd.u32 "
      "%r4, %r4, 10;\nMIDDLE:\nadd.u32 %r4, %r4, 100;\nbra END;\nLOW:\nmov.u32 %r4, 2;\nEND:\n",
      [](uint32_t i) { return i < 8    ? 2
                              : i < 20 ? 101
                                       : 111; });
}

}  // namespace
}  // namespace ingot::standin::ptx
