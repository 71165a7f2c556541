// Every check has a kernel that trips it, and the same kernel without the fault.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "standin/ptx/test_kernel.h"

namespace ingot::standin::ptx {
namespace {

using ::testing::HasSubstr;

constexpr Launch kTwoWarps{{1, 1, 1}, {64, 1, 1}, 0};

// %r1 = shared + 4 * thread, %r2 = shared + 4 * (63 - thread), %rd5 = p0 + 4 * thread.
const std::string kPlaces = R"(
.shared .align 16 .b8 buffer[256];
mov.u32 %r1, buffer;
shl.b32 %r3, %r0, 2;
add.u32 %r2, %r1, 252;
sub.u32 %r2, %r2, %r3;
add.u32 %r1, %r1, %r3;
cvt.u64.u32 %rd5, %r3;
add.u64 %rd5, %rd0, %rd5;
)";

// Reports of a kernel with a buffer of 1,024 bytes in p0.
Outcome RunBody(const std::string& body, const Launch& launch = kTwoWarps, const Options& options = {}) {
  TestMemory memory;
  const uint64_t out = memory.Allocate(1024, 256);
  return RunText(KernelText(kPlaces + body), memory, {out}, launch, options);
}

struct Pair {
  const char* name;
  std::string kind;  // of the faulty kernel's first report
  std::string faulty, correct;
  Launch launch = kTwoWarps;
};

std::vector<Pair> Pairs() {
  const std::string store = "st.shared.u32 [%r1], %r0;\n",
                    load = "ld.shared.u32 %r4, [%r2];\nst.global.u32 [%rd5], %r4;\n";
  const std::string copy = "cp.async.ca.shared.global [%r1], [%rd5], 4;\ncp.async.commit_group;\n";
  const std::string own = "ld.shared.u32 %r4, [%r1];\n";
  const Launch one_warp{{1, 1, 1}, {32, 1, 1}, 0}, two_blocks{{2, 1, 1}, {32, 1, 1}, 0};
  // A lane's neighbor in the same warp.
  const std::string neighbor = "xor.b32 %r5, %r1, 4;\nld.shared.u32 %r4, [%r5];\n";
  return {
      {"a read of another warp's write", "race", store + load, store + "bar.sync 0;\n" + load},
      {"a write after another warp's read", "race", store + "bar.sync 0;\n" + load + store,
       store + "bar.sync 0;\n" + load + "bar.sync 0;\n" + store},
      {"a write after the read of a warp that only reads", "race",
       "setp.lt.u32 %p1, %r0, 32;\n@%p1 ld.shared.u32 %r4, [%r2];\n@!%p1 st.shared.u32 [%r1], %r0;\n",
       "setp.lt.u32 %p1, %r0, 32;\n@%p1 ld.shared.u32 %r4, [%r2];\nbar.sync 0;\n@!%p1 st.shared.u32 [%r1], %r0;\n"},
      {"two warps' writes", "race", "and.b32 %r5, %r1, 127;\nst.shared.u32 [%r5], %r0;\n",
       "st.shared.u32 [%r1], %r0;\n"},
      {"a read of another lane's write", "race", store + neighbor, store + "bar.warp.sync 0xffffffff;\n" + neighbor},
      {"a warp's barrier that leaves out a writer", "race",
       store + "setp.lt.u32 %p1, %r0, 31;\n@%p1 bra LOW;\nbra DONE;\nLOW:\nbar.warp.sync 0x7fffffff;\nDONE:\n" +
           neighbor,
       store +
           "setp.lt.u32 %p1, %r0, 16;\n@%p1 bra LOW;\nbar.warp.sync 0xffff0000;\nbra DONE;\nLOW:\nbar.warp.sync "
           "0x0000ffff;\nDONE:\n" +
           neighbor,
       one_warp},
      {"a byte of another lane", "race",
       "st.shared.u8 [%r1+1], %r0;\nxor.b32 %r5, %r1, 4;\nld.shared.u8 %r4, [%r5+1];\n",
       "st.shared.u8 [%r1+1], %r0;\nxor.b32 %r5, %r1, 4;\nld.shared.u8 %r4, [%r5+2];\n", one_warp},
      {"a plain write beside atomics", "race",
       "mov.u32 %r6, buffer;\natom.shared.add.u32 %r4, [%r6], 1;\nst.shared.u32 [%r6], %r4;\n",
       "mov.u32 %r6, buffer;\natom.shared.add.u32 %r4, [%r6], 1;\nred.shared.add.u32 [%r6], %r4;\n"},
      {"another warp's atomic after a plain write and its writer's atomic", "race",
       "mov.u32 %r6, buffer;\nsetp.eq.u32 %p1, %r0, 0;\n@%p1 st.shared.u32 [%r6], 0;\nbar.warp.sync "
       "-1;\nred.shared.add.u32 [%r6], 1;\n",
       "mov.u32 %r6, buffer;\nsetp.eq.u32 %p1, %r0, 0;\n@%p1 st.shared.u32 [%r6], 0;\nbar.sync "
       "0;\nred.shared.add.u32 [%r6], 1;\n"},
      {"a barrier for half of the exchange", "race", store + "setp.lt.u32 %p1, %r0, 32;\n@%p1 bar.sync 1, 32;\n" + load,
       store + "bar.sync 1, 64;\n" + load},
      {"a producer that only arrives", "race", store + "bar.arrive 1, 64;\n" + load,
       "setp.lt.u32 %p1, %r0, 32;\n@%p1 st.shared.u32 [%r1], %r0;\n@%p1 bar.arrive 1, 64;\n@!%p1 bar.sync 1, "
       "64;\n@!%p1 ld.shared.u32 %r4, [%r2];\n"},
      {"a copy that has not arrived", "not arrived", copy + own, copy + "cp.async.wait_group 0;\n" + own},
      {"a copy that is the newest group", "not arrived", copy + "cp.async.wait_group 1;\n" + own,
       copy + "cp.async.commit_group;\ncp.async.wait_group 1;\n" + own},
      {"a copy in no group", "not arrived",
       "cp.async.ca.shared.global [%r1], [%rd5], 4;\ncp.async.wait_group 0;\n" + own,
       "cp.async.ca.shared.global [%r1], [%rd5], 4;\ncp.async.wait_all;\n" + own},
      {"another warp's copy without a barrier", "race", copy + "cp.async.wait_all;\n" + load,
       copy + "cp.async.wait_all;\nbar.sync 0;\n" + load},
      {"a copy onto what is being read", "race", store + "bar.sync 0;\n" + load + copy + "cp.async.wait_all;\n",
       store + "bar.sync 0;\n" + load + "bar.sync 0;\n" + copy + "cp.async.wait_all;\n"},
      {"global memory past its end", "bounds", "st.global.u32 [%rd5+1020], %r0;\n", "st.global.u32 [%rd5+512], %r0;\n"},
      {"a copy from past the end", "bounds", "cp.async.ca.shared.global [%r1], [%rd5+1020], 4;\ncp.async.wait_all;\n",
       "cp.async.ca.shared.global [%r1], [%rd5+1020], 4, 0;\ncp.async.wait_all;\n"},
      {"shared memory past its end", "bounds", "st.shared.u32 [%r1+4], %r0;\n", store},
      {"a parameter past its end", "bounds", "ld.param.u64 %rd6, [p4+8];\n", "ld.param.u64 %rd6, [p4];\n"},
      {"local memory past its end", "bounds", ".local .b8 own[4];\nmov.u64 %rd6, own;\nst.local.u32 [%rd6+4], %r0;\n",
       ".local .b8 own[4];\nmov.u64 %rd6, own;\nst.local.u32 [%rd6], %r0;\n"},
      {"a null pointer", "bounds", "mov.u64 %rd6, 0;\nld.u32 %r4, [%rd6];\n", "ld.u32 %r4, [%rd5];\n"},
      {"an address that is not aligned", "alignment", "ld.global.u32 %r4, [%rd5+2];\n",
       "ld.global.u16 %r4, [%rd5+2];\n"},
      {"a vector that is not aligned", "alignment", "ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd5];\n",
       "ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd0];\n"},
      {"a barrier that part of a warp reaches", "partial warp",
       "setp.lt.u32 %p1, %r0, 40;\n@%p1 bar.sync 0;\n@!%p1 bar.sync 0;\n", "bar.sync 0;\n"},
      {"a barrier that one warp leaves out", "partial block", "setp.lt.u32 %p1, %r0, 32;\n@%p1 bar.sync 0;\n",
       "setp.lt.u32 %p1, %r0, 32;\n@%p1 bar.sync 0, 32;\n"},
      {"two barriers", "deadlock", "setp.lt.u32 %p1, %r0, 32;\n@%p1 bar.sync 1;\n@!%p1 bar.sync 2;\n",
       "setp.lt.u32 %p1, %r0, 32;\n@%p1 bar.sync 1;\n@!%p1 bar.sync 1;\n"},
      {"a barrier for 40 threads", "barrier", "bar.sync 1, 40;\n", "bar.sync 1, 64;\n"},
      {"a shuffle by half of the warp", "partial warp",
       "setp.lt.u32 %p1, %r0, 16;\n@%p1 shfl.sync.bfly.b32 %r4, %r0, 1, 31, 0xffffffff;\n",
       "setp.lt.u32 %p1, %r0, 16;\n@%p1 shfl.sync.bfly.b32 %r4, %r0, 1, 31, 0xffff;\n", one_warp},
      {"a vote whose mask leaves out the lane", "partial warp", "vote.sync.any.pred %p2, %p1, 0xffff;\n",
       "vote.sync.any.pred %p2, %p1, 0xffffffff;\n"},
      {"ldmatrix by part of a warp", "partial warp",
       "mov.u32 %r6, buffer;\nsetp.lt.u32 %p1, %r0, 8;\n@%p1 ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r4}, [%r6];\n",
       "mov.u32 %r6, buffer;\nldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r4}, [%r6];\n", one_warp},
      {"mma by part of a warp", "partial warp",
       "setp.lt.u32 %p1, %r0, 31;\n@%p1 mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%f0, %f1, %f2, %f3}, {%r4, "
       "%r5}, {%r6}, {%f0, %f1, %f2, %f3};\n",
       "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%f0, %f1, %f2, %f3}, {%r4, %r5}, {%r6}, {%f0, %f1, %f2, "
       "%f3};\n",
       one_warp},
      {"ldmatrix of rows that another lane wrote", "race",
       store + "mov.u32 %r6, buffer;\nldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r4}, [%r6];\n",
       store +
           "bar.warp.sync 0xffffffff;\nmov.u32 %r6, buffer;\nldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r4}, [%r6];\n",
       one_warp},
      {"output that two blocks write", "two blocks", "st.global.u32 [%rd5], %r0;\n",
       "mov.u32 %r5, %ctaid.x;\nmul.wide.u32 %rd6, %r5, 128;\nadd.u64 %rd5, %rd5, %rd6;\nst.global.u32 [%rd5], %r0;\n",
       two_blocks},
      {"a kernel that traps", "trap", "trap;\n", "", one_warp},
      {"a write to a parameter", "bounds", "cvta.param.u64 %rd6, %rd7;\nst.u32 [%rd6], %r0;\n",
       "mov.u64 %rd7, 0;\ncvta.param.u64 %rd6, %rd7;\nld.u32 %r4, [%rd6];\n"},
  };
}

TEST(PtxChecks, ReportTheFaultyKernelAloneUnderEverySeed) {
  for (const Pair& pair : Pairs()) {
    for (const uint64_t seed : {0, 1, 2, 3}) {
      for (const Arrival arrival : {Arrival::kLate, Arrival::kEarly, Arrival::kRandom}) {
        SCOPED_TRACE(std::string(pair.name) + ", seed " + std::to_string(seed));
        Options options;
        options.seed = seed;
        options.arrival = arrival;
        const Outcome faulty = RunBody(pair.faulty, pair.launch, options),
                      correct = RunBody(pair.correct, pair.launch, options);
        ASSERT_FALSE(faulty.reports.empty());
        EXPECT_EQ(faulty.reports[0].kind, pair.kind) << faulty.reports[0].text;
        for (const Report& r : correct.reports) ADD_FAILURE() << r.kind << ": " << r.text;
      }
    }
  }
}

TEST(PtxChecks, NameTheKernelBlockWarpLaneLineAndInstruction) {
  const Outcome outcome = RunBody("st.shared.u32 [%r1+4], %r0;\n");
  ASSERT_EQ(outcome.reports.size(), 1u);
  EXPECT_THAT(
      outcome.reports[0].text,
      ::testing::MatchesRegex("k, block \\(0, 0, 0\\), warp 1, lane 31, line [0-9]+, \"st.shared.u32 .*\": 4 bytes at "
                              "shared address 0x100, of 256 bytes of shared memory"));
}

TEST(PtxChecks, EndAnEndlessBlock) {
  Options options;
  options.block_instructions = 1000;
  const Outcome outcome = RunBody("LOOP:\nadd.u32 %r4, %r4, 1;\nbra LOOP;\n", kTwoWarps, options);
  EXPECT_EQ(Kinds(outcome), "endless");
}

// Zeros over a copy of the same lane, and then a read: in no order, unless copies that read nothing land at once.
TEST(PtxChecks, CopiesThatReadNothingLandAtOnceOnRequest) {
  const std::string body =
      "cp.async.ca.shared.global [%r1], [%rd5], 4, 0;\ncp.async.commit_group;\nst.shared.u32 [%r1], %r0;\n"
      "ld.shared.u32 %r4, [%r1];\n";
  Options options;
  EXPECT_EQ(Kinds(RunBody(body, kTwoWarps, options)), "not arrived");
  options.empty_copies_land = true;
  EXPECT_EQ(Kinds(RunBody(body, kTwoWarps, options)), "");
  // They are writes: another warp needs a barrier.
  const std::string other = "cp.async.ca.shared.global [%r1], [%rd5], 4, 0;\nld.shared.u32 %r4, [%r2];\n";
  EXPECT_EQ(RunBody(other, kTwoWarps, options).reports.at(0).kind, "race");
  EXPECT_EQ(
      Kinds(RunBody("cp.async.ca.shared.global [%r1], [%rd5], 4;\nld.shared.u32 %r4, [%r1];\n", kTwoWarps, options)),
      "not arrived");
}

TEST(PtxChecks, AreOffWithoutTheOption) {
  Options options;
  options.check_races = false;
  EXPECT_EQ(Kinds(RunBody("st.shared.u32 [%r1], %r0;\nld.shared.u32 %r4, [%r2];\n", kTwoWarps, options)), "");
}

TEST(PtxChecks, SharedMemoryStartsAsNotANumber) {
  TestMemory memory;
  const uint64_t out = memory.Allocate(256, 256);
  const Outcome outcome = RunText(KernelText(kPlaces + "ld.shared.f32 %f1, [%r1];\nst.global.f32 [%rd5], %f1;\n"),
                                  memory, {out}, kTwoWarps);
  EXPECT_EQ(Kinds(outcome), "");
  EXPECT_TRUE(std::isnan(memory.Get<float>(out, 1)[0]));
}

// A late copy shows the old data until its wait, an early one the new.
TEST(PtxChecks, CopiesArriveLateOrEarly) {
  for (const bool early : {false, true}) {
    Options options;
    options.arrival = early ? Arrival::kEarly : Arrival::kLate;
    options.check_races = false;
    TestMemory memory;
    const uint64_t out = memory.Put(std::span<const uint32_t>(std::vector<uint32_t>(64, 5)));
    const std::string body =
        "st.shared.u32 [%r1], 3;\ncp.async.ca.shared.global [%r1], [%rd5], 4;\ncp.async.commit_group;\nld.shared.u32 "
        "%r4, [%r1];\n"
        "cp.async.wait_all;\nld.shared.u32 %r5, [%r1];\nshl.b32 %r5, %r5, 8;\nadd.u32 %r4, %r4, %r5;\nst.global.u32 "
        "[%rd5], %r4;\n";
    RunText(KernelText(kPlaces + body), memory, {out}, kTwoWarps, options);
    EXPECT_EQ(memory.Get<uint32_t>(out, 64), std::vector<uint32_t>(64, (5 << 8) + (early ? 5 : 3)));
  }
}

Counters CountsOf(const std::string& body) { return RunBody(body, {{1, 1, 1}, {32, 1, 1}, 0}).counters; }

TEST(PtxCounters, TellWavefrontsFromTheLeast) {
  // Two words of stride: half of the banks, twice.
  const Counters strided =
      CountsOf("shl.b32 %r5, %r0, 3;\nmov.u32 %r6, buffer;\nadd.u32 %r5, %r5, %r6;\nld.shared.u32 %r4, [%r5];\n");
  EXPECT_EQ(strided.wavefronts, 2u);
  EXPECT_EQ(strided.ideal_wavefronts, 1u);
  const Counters broadcast = CountsOf("ld.shared.u32 %r4, [buffer];\n");
  EXPECT_EQ(broadcast.wavefronts, 1u);
  // 16 bytes a lane: four turns of eight lanes, all of the same two rows here.
  const Counters wide = CountsOf(
      "and.b32 %r5, %r0, 7;\nshl.b32 %r5, %r5, 4;\nmov.u32 %r6, buffer;\nadd.u32 %r5, %r5, %r6;\nld.shared.v4.u32 "
      "{%r8, %r9, %r10, %r11}, [%r5];\n");
  EXPECT_EQ(wide.wavefronts, 4u);
  EXPECT_EQ(wide.ideal_wavefronts, 4u);
}

TEST(PtxCounters, CountSectorsOfGlobalMemory) {
  const Counters dense = CountsOf("ld.global.u32 %r4, [%rd5];\n");
  EXPECT_EQ(dense.global_bytes, 128u);
  EXPECT_EQ(dense.global_sectors, 4u);
  const Counters strided =
      CountsOf("shl.b32 %r5, %r0, 5;\ncvt.u64.u32 %rd6, %r5;\nadd.u64 %rd6, %rd0, %rd6;\nld.global.u32 %r4, [%rd6];\n");
  EXPECT_EQ(strided.global_bytes, 128u);
  EXPECT_EQ(strided.global_sectors, 32u);
}

}  // namespace
}  // namespace ingot::standin::ptx
