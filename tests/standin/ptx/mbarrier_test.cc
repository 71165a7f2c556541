// mbarrier objects: phases and counts, the order that they carry, and a report when they are misused or deleted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "standin/ptx/test_kernel.h"

namespace ingot::standin::ptx {
namespace {

using ::testing::HasSubstr;

// %r1 = the object, %r2 = 256 words of data; %rd5 = p0 + 4 * thread, %r3 = data + 4 * thread, %r6 = data + 4 * (thread ^ 33).
std::string Begin(int count) {
  return R"(
.shared .align 8 .b8 object[16];
.shared .align 16 .b8 data[1024];
mov.u32 %r1, object;
mov.u32 %r2, data;
shl.b32 %r3, %r0, 2;
cvt.u64.u32 %rd5, %r3;
add.u64 %rd5, %rd0, %rd5;
xor.b32 %r6, %r3, 132;
add.u32 %r3, %r3, %r2;
add.u32 %r6, %r6, %r2;
mov.u32 %r4, 0;
setp.eq.u32 %p1, %r0, 0;
@%p1 mbarrier.init.shared.b64 [%r1], )" +
         std::to_string(count) + ";\nbar.sync 0;\n";
}
const std::string kArrive = "mbarrier.arrive.shared.b64 %rd6, [%r1];\n";
// Loops need names of their own.
std::string Wait(const std::string& label) {
  return label + ":\nmbarrier.test_wait.shared.b64 %p2, [%r1], %rd6;\n@!%p2 bra " + label + ";\n";
}
std::string WaitParity(const std::string& label, int parity) {
  return label + ":\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [%r1], " + std::to_string(parity) + ";\n@!%p2 bra " +
         label + ";\n";
}
const std::string kWrite = "st.shared.u32 [%r3], %r0;\n", kRead = "ld.shared.u32 %r4, [%r6];\n";
const std::string kOut = "st.global.u32 [%rd5], %r4;\n";

struct Ran {
  std::string kinds, text;
  std::vector<uint32_t> out;
};

Ran RunBody(const std::string& body, uint64_t seed = 0, Arrival arrival = Arrival::kLate, unsigned threads = 64) {
  TestMemory memory;
  std::vector<uint32_t> numbers(256);
  for (uint32_t i = 0; i < 256; ++i) numbers[i] = 1000 + i;
  const uint64_t out = memory.Put(std::span<const uint32_t>(numbers));
  Options options;
  options.seed = seed;
  options.arrival = arrival;
  const Outcome outcome = RunText(KernelText(body), memory, {out}, {{1, 1, 1}, {threads, 1, 1}, 0}, options);
  return {Kinds(outcome), outcome.reports.empty() ? "" : outcome.reports[0].text, memory.Get<uint32_t>(out, threads)};
}

// Calls f for several orders of warps and both times at which a copy lands.
template <typename F>
void UnderEveryOrder(const F& f) {
  for (const uint64_t seed : {0, 1, 2, 3}) {
    for (const Arrival arrival : {Arrival::kLate, Arrival::kEarly, Arrival::kRandom}) f(seed, arrival);
  }
}

void ExpectSwapped(const std::string& body) {
  UnderEveryOrder([&](uint64_t seed, Arrival arrival) {
    const Ran ran = RunBody(body, seed, arrival);
    EXPECT_EQ(ran.kinds, "") << ran.text;
    for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(ran.out[i], i ^ 33) << i;
  });
}

void ExpectKind(const std::string& body, const std::string& kind) {
  UnderEveryOrder([&](uint64_t seed, Arrival arrival) {
    const Ran ran = RunBody(body, seed, arrival);
    EXPECT_EQ(ran.kinds.substr(0, ran.kinds.find(',')), kind) << ran.text << "\n" << body;
  });
}

TEST(PtxMBarrier, OrdersTheBlocksThreadsByStateAndByParity) {
  ExpectSwapped(Begin(64) + kWrite + kArrive + Wait("A") + kRead + kOut);
  ExpectSwapped(Begin(64) + kWrite + kArrive + WaitParity("A", 0) + kRead + kOut);
  // Two phases: nobody overwrites before everybody has read.
  ExpectSwapped(Begin(64) + "mov.u32 %r5, %r0;\nadd.u32 %r0, %r0, 7;\n" + kWrite + kArrive + Wait("A") + kRead +
                kArrive + Wait("B") + "mov.u32 %r0, %r5;\n" + kWrite + kArrive + WaitParity("C", 0) + kRead + kOut);
}

TEST(PtxMBarrier, EachPartIsMissedWhenItIsDeleted) {
  ExpectKind(Begin(64) + kWrite + kArrive + kRead + kOut, "race");
  ExpectKind(Begin(64) + kWrite + kArrive + WaitParity("A", 1) + kRead + kOut, "race");
  ExpectKind(Begin(64) + kWrite + Wait("A") + kRead + kOut, "mbarrier");  // no state
  ExpectKind(Begin(64) + kWrite + WaitParity("A", 0) + kRead + kOut, "deadlock");
  ExpectKind(Begin(65) + kWrite + kArrive + Wait("A") + kRead + kOut, "deadlock");
  // The second phase keeps readers and writers apart.
  ExpectKind(Begin(64) + kWrite + kArrive + Wait("A") + kRead + kWrite, "race");
}

// Only the lane that arrives releases what it did, unless its warp met before; and only the lane that waits is after it.
TEST(PtxMBarrier, CarriesTheOrderOfLanesThatArriveAndWait) {
  const std::string leader = "and.b32 %r7, %r0, 31;\nsetp.eq.u32 %p3, %r7, 0;\n";
  const std::string alone = "@%p3 mbarrier.arrive.shared.b64 %rd6, [%r1];\n", meet = "bar.warp.sync -1;\n";
  ExpectSwapped(Begin(2) + leader + kWrite + meet + alone + WaitParity("A", 0) + kRead + kOut);
  ExpectKind(Begin(2) + leader + kWrite + alone + WaitParity("A", 0) + kRead + kOut, "race");
  const std::string one_waits =
      "@!%p3 bra SKIP;\n" + WaitParity("A", 0) + "SKIP:\n";  // the others go on once it is done
  ExpectSwapped(Begin(64) + leader + kWrite + kArrive + one_waits + meet + kRead + kOut);
  ExpectKind(Begin(64) + leader + kWrite + kArrive + one_waits + kRead + kOut, "race");
}

// What a thread learned through an mbarrier, a block's barrier passes on.
TEST(PtxMBarrier, OrderPassesThroughOtherBarriers) {
  const std::string writer =
      "setp.lt.u32 %p3, %r0, 32;\n@!%p3 bra READ;\n" + kWrite + kArrive + "bra.uni END;\nREAD:\n";
  const std::string one_waits = "setp.ne.u32 %p4, %r0, 32;\n@%p4 bra MEET;\n" + WaitParity("A", 0) + "MEET:\n";
  const std::string read = "ld.shared.u32 %r4, [%r6];\nst.global.u32 [%rd5], %r4;\nEND:\n";
  const Ran ran = RunBody(Begin(32) + writer + one_waits + "bar.sync 1, 32;\n" + read);
  EXPECT_EQ(ran.kinds, "") << ran.text;
  for (uint32_t i = 32; i < 64; ++i) EXPECT_EQ(ran.out[i], i ^ 33) << i;
  ExpectKind(Begin(32) + writer + one_waits + read, "race");
}

TEST(PtxMBarrier, CountsArrivals) {
  const std::string count = "mbarrier.pending_count.b64 %r4, %rd6;\n";
  std::vector<uint32_t> got = RunBody(Begin(64) + kArrive + count + kOut).out;
  std::sort(got.begin(), got.end());
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(got[i], i + 1);  // before each arrival
  // A thread that drops out is not expected in the next phase.
  const std::string drop =
      "setp.lt.u32 %p3, %r0, 32;\n@%p3 mbarrier.arrive_drop.shared.b64 %rd6, [%r1];\n@!%p3 mbarrier.arrive.shared.b64 "
      "%rd6, [%r1];\n";
  const std::string rest = "@%p3 bra END;\n" + kArrive + Wait("B") + "mov.u32 %r4, 9;\nEND:\n";
  got = RunBody(Begin(64) + drop + Wait("A") + rest + kOut).out;
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(got[i], i < 32 ? 0u : 9u);
}

TEST(PtxMBarrier, ReportsMisuse) {
  const std::string plain = "setp.eq.u32 %p1, %r0, 0;\n";
  const struct {
    std::string body, text;
  } rows[] = {
      {Begin(64) + "mbarrier.arrive.shared.b64 %rd6, [%r1+8];\n", "not initialized"},
      {Begin(1) + "@%p1 mbarrier.arrive.shared.b64 %rd6, [%r1], 2;\n", "2 arrivals, and the phase expects 1"},
      {Begin(1) + "@%p1 mbarrier.arrive.noComplete.shared.b64 %rd6, [%r1], 1;\n", "must not complete"},
      {Begin(1) + "@%p1 mbarrier.inval.shared.b64 [%r1];\nbar.sync 0;\n" + kArrive, "not initialized"},
      {Begin(1) + "mov.b64 %rd6, 5;\nmbarrier.test_wait.shared.b64 %p2, [%r1], %rd6;\n", "of no phase"},
      {Begin(0), "a count of 0"},
  };
  for (const auto& row : rows) {
    const Ran ran = RunBody(row.body);
    EXPECT_THAT(ran.kinds, HasSubstr("mbarrier")) << row.body;
    EXPECT_THAT(ran.text, HasSubstr(row.text));
  }
  // Without a barrier between mbarrier.init and its use, by what comes first.
  std::string hasty = Begin(64);
  hasty.resize(hasty.find("bar.sync"));
  UnderEveryOrder([&](uint64_t seed, Arrival arrival) {
    EXPECT_THAT(RunBody(hasty + "bar.warp.sync -1;\n" + kArrive, seed, arrival).kinds,
                ::testing::AnyOf(HasSubstr("race"), HasSubstr("mbarrier")));
  });
}

// A thread's copies arrive with it. %r3 = 1000 + thread from global memory.
TEST(PtxMBarrier, WaitsForCopies) {
  const std::string copy = "cp.async.ca.shared.global [%r3], [%rd5], 4;\n";
  const auto expect = [](const std::string& body) {
    UnderEveryOrder([&](uint64_t seed, Arrival arrival) {
      const Ran ran = RunBody(body, seed, arrival);
      EXPECT_EQ(ran.kinds, "") << ran.text;
      for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(ran.out[i], 1000 + (i ^ 33));
    });
  };
  const std::string noinc = "cp.async.mbarrier.arrive.noinc.shared.b64 [%r1];\n";
  const std::string added = "cp.async.mbarrier.arrive.shared.b64 [%r1];\n";
  expect(Begin(64) + copy + noinc + WaitParity("A", 0) + kRead + "bar.sync 0;\n" + kOut);
  expect(Begin(64) + copy + added + kArrive + Wait("A") + kRead + "bar.sync 0;\n" + kOut);
  // Nobody waits. A copy that landed early is there, but in no order.
  UnderEveryOrder([&](uint64_t seed, Arrival arrival) {
    EXPECT_THAT(RunBody(Begin(64) + copy + noinc + kRead + kOut, seed, arrival).kinds,
                HasSubstr(arrival == Arrival::kEarly ? "race" : "not arrived"));
  });
  ExpectKind(Begin(64) + copy + kArrive + Wait("A") + kRead + kOut, "not arrived");
  // The arrival is of earlier copies alone.
  ExpectKind(Begin(64) + noinc + copy + WaitParity("A", 0) + kRead + kOut, "not arrived");
}

}  // namespace
}  // namespace ingot::standin::ptx
