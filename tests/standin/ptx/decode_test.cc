// The decode kernels (src/kernels/cuda/decode_attention.cuh), compiled to PTX by nvcc, on the machine: results against
// fp64, equal bits for every batch with and without shared pages, bytes, bank conflicts, and each barrier and wait.
#include <algorithm>
#include <limits>
#include <random>

#include "kernels/cuda/decode_args.h"
#include "standin/ptx/attention_machine.h"
#include "standin/ptx/compile_ptx.h"
#include "trials.h"

namespace ingot::standin::ptx {
namespace {

using kernels::AttentionSequence;
using kernels::AttentionShape;
using kernels::BFloat16;
using kernels::testing::kTolerance;
using kernels::testing::RandomVector;
using kernels::testing::RelativeError;
using kernels::testing::Stream;
namespace cuda = kernels::cuda;

const std::string& DecodePtx() {
  static const std::string text = CompilePtx(FindNvcc(), "src/kernels/cuda/decode.cu", "");
  return text;
}

std::string KernelOf(int64_t width) {
  return std::string("_ZN5ingot7kernels4cuda15DecodeMmaKernelILi") + (width <= 64 ? "64" : "128") +
         "EEEvNS1_10DecodeArgsE";
}
const char kMerge[] = "_ZN5ingot7kernels4cuda17DecodeMergeKernelENS1_10DecodeArgsE";

// sizeof(DecodeMemory<64>) and sizeof(DecodeMemory<128>).
size_t SharedBytes(int64_t width) { return width <= 64 ? 20264 : 36648; }

// A sequence's last `queries` rows over its pages.
struct Request {
  Stream<BFloat16> stream;
  int64_t queries = 1;
  std::vector<int32_t> table;
};

// A causal stream of `length`. Its first `shared` keys are those of `other`.
Request MakeRequest(std::mt19937_64& rng, const AttentionShape& shape, int64_t length, int64_t queries,
                    const Request* other = nullptr, int64_t shared = 0) {
  Request r{Stream<BFloat16>(rng, shape, length, 0, 0), queries, {}};
  if (other == nullptr) return r;
  const int64_t count = shared * shape.kv_heads * shape.head_dim;
  std::copy_n(other->stream.k.begin(), count, r.stream.k.begin());
  std::copy_n(other->stream.v.begin(), count, r.stream.v.begin());
  return r;
}

// Pages of keys and values in a random order. Rows that no sequence owns are not-a-number, so that reading one would
// show.
struct Pages {
  int64_t page_size, row;
  std::vector<BFloat16> k, v;
  std::vector<int32_t> free;

  Pages(std::mt19937_64& rng, const AttentionShape& shape, int64_t size, int64_t keys)
      : page_size(size),
        row(shape.kv_heads * shape.head_dim),
        k((keys / size + 1) * size * row, kernels::ToBFloat16(NAN)),
        v(k),
        free(keys / size + 1) {
    for (size_t p = 0; p < free.size(); ++p) free[p] = static_cast<int32_t>(p);
    std::shuffle(free.begin(), free.end(), rng);
  }

  // Stores the keys that the request's table does not have yet.
  void Store(Request& r) {
    for (int64_t key = std::ssize(r.table) * page_size; key < r.stream.rows; ++key) {
      if (key % page_size == 0) {
        r.table.push_back(free.back());
        free.pop_back();
      }
      const int64_t to = (r.table.back() * page_size + key % page_size) * row;
      std::copy_n(r.stream.k.data() + key * row, row, k.data() + to);
      std::copy_n(r.stream.v.data() + key * row, row, v.data() + to);
    }
  }
};

struct Decoded {
  std::vector<BFloat16> out;
  std::vector<float> lse;
  bool operator==(const Decoded&) const = default;
};

struct Decoder {
  Machine m;
  AttentionShape shape;
  int64_t page_size;
  const BFloat16 *k, *v;
  const float* sinks;

  Decoder(const AttentionShape& s, const Pages& pages, const std::vector<float>& sink_logits = {},
          const std::string& ptx = DecodePtx())
      : m(ptx), shape(s), page_size(pages.page_size), k(m.Put(pages.k)), v(m.Put(pages.v)), sinks(m.Put(sink_logits)) {}

  // `most_slots` cuts the batch into several launches.
  Decoded Run(std::span<const Request> requests, int64_t most_slots = std::numeric_limits<int64_t>::max()) {
    std::vector<AttentionSequence> sequences;
    std::vector<BFloat16> q;
    int64_t rows = 0;
    for (const Request& r : requests) {
      AttentionSequence& sequence = sequences.emplace_back();
      sequence.q_begin = rows;
      sequence.q_count = r.queries;
      sequence.key_count = r.stream.rows;
      sequence.q_offset = r.stream.rows - r.queries;
      sequence.block_table = r.table.data();
      EXPECT_TRUE(cuda::CanDecode(sequence, r.queries));
      rows += r.queries;
      q.insert(q.end(), r.stream.q.end() - r.queries * shape.heads * shape.head_dim, r.stream.q.end());
    }
    const size_t entries = rows * shape.heads;
    BFloat16* const out = m.Put(std::vector<BFloat16>(entries * shape.head_dim, kernels::ToBFloat16(7)));
    float* const lse = m.Put(std::vector<float>(entries, 7));
    const BFloat16* const queries = m.Put(q);
    for (const auto& piece : cuda::CutDecodes(sequences, shape.window, most_slots)) {
      RunPiece(piece, queries, out, lse);
    }
    return {m.Get(out, entries * shape.head_dim), m.Get(lse, entries)};
  }

  void RunPiece(std::span<const AttentionSequence> sequences, const BFloat16* q, BFloat16* out, float* lse) {
    const cuda::DecodePlan plan(shape, sequences, page_size);
    std::vector<std::byte> packed(plan.packed_bytes());
    plan.Pack(packed.data());
    const int64_t q_row = shape.heads * shape.head_dim, k_row = shape.kv_heads * shape.head_dim;
    const cuda::Shape strides{shape.heads,  shape.kv_heads, shape.head_dim, shape.heads / shape.kv_heads,
                              shape.window, page_size,      q_row,          k_row,
                              k_row,        shape.scale};
    EXPECT_TRUE(cuda::UsesMma<BFloat16>(strides));
    const size_t entries = plan.queries().size() * shape.heads;
    const size_t slots = plan.slots() * shape.heads;
    const cuda::DecodeArgs args{cuda::MakeMmaArgs({strides, {}, q, k, v, sinks, out, lse}), plan.View(m.Put(packed)),
                                std::ssize(plan.queries()), m.Put(std::vector<float>(slots * shape.head_dim, NAN)),
                                m.Put(std::vector<cuda::DecodeState>(slots, {NAN, NAN}))};
    m.Run(KernelOf(shape.head_dim),
          {{static_cast<unsigned>(plan.items().size()), static_cast<unsigned>(shape.kv_heads), 1},
           {128, 1, 1},
           SharedBytes(shape.head_dim)},
          args);
    m.Run(kMerge, {{static_cast<unsigned>((entries + 3) / 4), 1, 1}, {128, 1, 1}, 0}, args);
  }
};

// The tolerances are those of ForwardMmaKernel: probabilities and outputs are rounded to bf16, and merging adds roundings
// of fp32 alone.
void ExpectClose(std::span<const Request> requests, const Decoded& got) {
  std::vector<double> out, lse;
  for (const Request& r : requests) {
    for (int64_t query = r.stream.rows - r.queries; query < r.stream.rows; ++query) {
      for (int64_t head = 0; head < r.stream.shape.heads; ++head) {
        const Row row = Define(r.stream, query, head);
        out.insert(out.end(), row.out.begin(), row.out.end());
        lse.push_back(row.lse);
      }
    }
  }
  EXPECT_LT(RelativeError(got.out, out), kTolerance<BFloat16>.out);
  EXPECT_LT(RelativeError(got.lse, lse), kTolerance<BFloat16>.lse);
}

class PtxDecode : public ::testing::Test {
 protected:
  void SetUp() override {
    if (FindNvcc().empty()) GTEST_SKIP() << "no CUDA compiler: scripts/setup.sh installs it";
  }
};

// A batch with heads, groups, widths, windows, sinks, pages, drafts, and shared prefixes by the seed.
void CheckBatch(uint64_t seed) {
  std::mt19937_64 rng(seed);
  const auto below = [&rng](uint64_t n) { return static_cast<int64_t>(rng() % n); };
  const int64_t kv_heads = 1 + below(2), group = seed % 11 == 0 ? 70 : 1 + below(5), width = 8 * (1 + below(16));
  AttentionShape shape{kv_heads * group, kv_heads, width, 1.2 / std::sqrt(static_cast<double>(width))};
  if (seed % 3 == 0) shape.window = 1 + below(900);
  if (seed % 7 == 0) shape.scale = -shape.scale;
  if (seed % 13 == 0) shape.scale = 0;
  const int64_t page_size = std::array{16, 1, 24, 64, 700}[below(5)];
  Pages pages(rng, shape, page_size, 12000);
  std::vector<float> sinks;
  if (seed % 2 == 0) sinks = RandomVector<float>(rng, shape.heads, 2.0);
  std::vector<Request> requests;
  for (int i = 0; i < 5; ++i) {
    const int64_t length = 1 + below(1300), queries = std::min<int64_t>(length, 1 + (i == 0 ? 0 : below(4)));
    const Request* const first = requests.empty() ? nullptr : &requests.front();
    const int64_t shared = first == nullptr ? 0 : std::min(length, first->stream.rows) / page_size * page_size;
    Request r = MakeRequest(rng, shape, length, queries, first, shared);
    if (first != nullptr) r.table.assign(first->table.begin(), first->table.begin() + shared / page_size);
    r.stream.sinks = sinks;
    pages.Store(r);
    requests.push_back(std::move(r));
  }
  Decoder decoder(shape, pages, sinks);
  decoder.m.options.seed = seed;
  decoder.m.options.arrival = seed % 2 == 0 ? Arrival::kLate : Arrival::kRandom;
  decoder.m.options.sum = seed % 4 < 2 ? SumOrder::kAscending : SumOrder::kTensorCore;
  decoder.m.options.approximate = seed % 5 == 0;
  SCOPED_TRACE("batch " + std::to_string(seed) + ": heads " + std::to_string(shape.heads) + "/" +
               std::to_string(kv_heads) + ", width " + std::to_string(width) + ", pages of " +
               std::to_string(page_size) + ", window " + std::to_string(shape.window));
  ExpectClose(requests, decoder.Run(requests));
  ExpectNoReport(decoder.m);
  EXPECT_EQ(decoder.m.counters.wavefronts, decoder.m.counters.ideal_wavefronts) << "bank conflicts";
}

TEST_F(PtxDecode, EqualsTheDefinitionOnRandomBatches) {
  const auto trials = static_cast<uint64_t>(Trials(5, 300));  // the first five have every feature
  for (uint64_t seed = 7; seed < 7 + trials && !HasFailure(); ++seed) CheckBatch(seed);
}

// Half of the sequences share a prefix of more than a chunk.
std::vector<Request> SharingBatch(std::mt19937_64& rng, const AttentionShape& shape, int64_t count) {
  constexpr int64_t kPrefix = 560;
  std::vector<Request> requests;
  for (int64_t i = 0; i < count; ++i) {
    const bool shares = i % 2 == 0;
    const int64_t length = (shares ? kPrefix : 0) + 1 + static_cast<int64_t>(rng() % 200), queries = 1 + i % 7 / 6;
    requests.push_back(MakeRequest(rng, shape, length + queries - 1, queries,
                                   shares && i > 0 ? requests.data() : nullptr, shares ? kPrefix : 0));
  }
  return requests;
}

// Stores the requests in pages of 16. `share` = the first 560 keys of every second one are in the same pages.
Pages StoreBatch(std::mt19937_64& rng, const AttentionShape& shape, std::vector<Request>& requests, bool share) {
  Pages pages(rng, shape, 16, std::ssize(requests) * 1280);
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].table.clear();
    if (share && i % 2 == 0 && i > 0) {
      requests[i].table.assign(requests[0].table.begin(), requests[0].table.begin() + 560 / 16);
    }
    pages.Store(requests[i]);
  }
  return pages;
}

TEST_F(PtxDecode, ARowHasTheSameBitsAloneAndInABatchWithAndWithoutSharing) {
  std::mt19937_64 rng(3);
  const AttentionShape shape{2, 1, 16, 0.3};
  std::vector<Request> requests = SharingBatch(rng, shape, 256);
  Decoder apart(shape, StoreBatch(rng, shape, requests, false));
  const Decoded want = apart.Run(requests);
  Decoder together(shape, StoreBatch(rng, shape, requests, true));
  EXPECT_TRUE(together.Run(requests) == want) << "shared pages";
  EXPECT_LT(together.m.global_sectors[KernelOf(16)], apart.m.global_sectors[KernelOf(16)] * 3 / 4);
  int64_t entry = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    const int64_t entries = requests[i].queries * shape.heads;
    if (i % 3 == 0) {
      const Decoded alone = together.Run({&requests[i], 1});
      EXPECT_TRUE(std::equal(alone.out.begin(), alone.out.end(), want.out.begin() + entry * shape.head_dim)) << i;
      EXPECT_TRUE(std::equal(alone.lse.begin(), alone.lse.end(), want.lse.begin() + entry)) << i;
    }
    entry += entries;
  }
  ExpectNoReport(apart.m);
  ExpectNoReport(together.m);
}

// The order of the batch decides which rows of a warp a query has.
TEST_F(PtxDecode, ARowHasTheSameBitsInEveryPlaceOfABatch) {
  std::mt19937_64 rng(4);
  const AttentionShape shape{6, 2, 40, 0.2, 300};
  std::vector<Request> requests = SharingBatch(rng, shape, 24);
  Decoder decoder(shape, StoreBatch(rng, shape, requests, true));
  const Decoded want = decoder.Run({&requests[9], 1});
  const std::vector<int32_t> table = requests[9].table;
  for (int trial = 0; trial < 4; ++trial) {
    std::shuffle(requests.begin(), requests.end(), rng);
    int64_t row = 0;
    for (size_t i = 0; requests[i].table != table; ++i) row += requests[i].queries;
    const Decoded got = decoder.Run(requests);
    EXPECT_TRUE(std::equal(want.out.begin(), want.out.end(), got.out.begin() + row * shape.heads * shape.head_dim));
    EXPECT_TRUE(std::equal(want.lse.begin(), want.lse.end(), got.lse.begin() + row * shape.heads));
  }
  ExpectNoReport(decoder.m);
}

// As with exact numerics: a prompt's queries, all at once, in launches with few slots, and each as a step of decode.
TEST_F(PtxDecode, TheQueriesOfAPromptHaveTheBitsOfEachAlone) {
  std::mt19937_64 rng(6);
  for (const int64_t window : {0, 70}) {
    SCOPED_TRACE(window);
    const AttentionShape shape{4, 2, 24, 0.2, window};
    std::vector<Request> requests;
    requests.push_back(MakeRequest(rng, shape, 560, 100));
    requests.push_back(MakeRequest(rng, shape, 70, 70));
    Decoder decoder(shape, StoreBatch(rng, shape, requests, false));
    const Decoded want = decoder.Run(requests);
    ExpectClose(requests, want);
    for (const int64_t most_slots : {1, 50}) EXPECT_TRUE(decoder.Run(requests, most_slots) == want) << most_slots;
    int64_t row = 0;
    for (const Request& r : requests) {
      for (int64_t i = 0; i < r.queries; ++i, ++row) {
        if (i % 9 != 0) continue;
        Request one = r;
        one.queries = 1;
        one.stream.rows = r.stream.rows - r.queries + i + 1;
        const int64_t q_row = shape.heads * shape.head_dim;
        one.stream.q.resize(one.stream.rows * q_row);
        const Decoded got = decoder.Run({&one, 1});
        EXPECT_TRUE(std::equal(got.out.begin(), got.out.end(), want.out.begin() + row * q_row)) << row;
        EXPECT_TRUE(std::equal(got.lse.begin(), got.lse.end(), want.lse.begin() + row * shape.heads)) << row;
      }
    }
    ExpectNoReport(decoder.m);
  }
}

// The least is each key and value once, and the queries. A shared chunk is read once for all of its rows.
TEST_F(PtxDecode, ReadsAtMostThreePercentMoreThanTheLeastBytes) {
  std::mt19937_64 rng(5);
  const AttentionShape shape{8, 2, 128, 0.09};
  const int64_t prefix = 2 * cuda::kChunkKeys, own = cuda::kChunkKeys, chunks = (prefix + own) / cuda::kChunkKeys;
  for (const int64_t batch : {1, 4}) {
    SCOPED_TRACE(batch);
    Pages pages(rng, shape, 16, prefix + batch * own);
    std::vector<Request> requests;
    for (int64_t i = 0; i < batch; ++i) {
      Request r = MakeRequest(rng, shape, prefix + own, 1, i == 0 ? nullptr : requests.data(), prefix);
      if (i > 0) r.table.assign(requests[0].table.begin(), requests[0].table.begin() + prefix / 16);
      pages.Store(r);
      requests.push_back(std::move(r));
    }
    Decoder decoder(shape, pages);
    decoder.Run(requests);
    ExpectNoReport(decoder.m);
    const int64_t width = shape.head_dim, entries = batch * shape.heads;
    const int64_t least = 2 * 2 * (prefix + batch * own) * shape.kv_heads * width + 2 * entries * width;
    const int64_t written = entries * (chunks * (4 * width + 8) + 2 * width + 4);
    const auto moved =
        static_cast<int64_t>(32 * (decoder.m.global_sectors[KernelOf(128)] + decoder.m.global_sectors[kMerge]));
    const double ratio = static_cast<double>(moved - written) / static_cast<double>(least);
    RecordProperty("bytes_read_over_least_" + std::to_string(batch), std::to_string(ratio));
    std::printf("batch %d: reads %.4f times the least, writes %.4f\n", static_cast<int>(batch), ratio,
                static_cast<double>(written) / static_cast<double>(least));
    EXPECT_LT(ratio, 1.03);
    EXPECT_GE(ratio, 1.0);
  }
}

TEST_F(PtxDecode, NotANumberInAQueryComesOutOfItAlone) {
  std::mt19937_64 rng(6);
  const AttentionShape shape{2, 2, 64, 0.12};
  std::vector<Request> requests = SharingBatch(rng, shape, 6);
  Decoder decoder(shape, StoreBatch(rng, shape, requests, true));
  const Decoded before = decoder.Run(requests);
  requests[2].stream.q.end()[-128] = kernels::ToBFloat16(NAN);  // head 0 of the last query: row 2
  Decoded after = decoder.Run(requests);
  for (int64_t d = 0; d < 64; ++d) EXPECT_TRUE(std::isnan(kernels::ToFloat(after.out[2 * 128 + d])));
  EXPECT_TRUE(std::isnan(after.lse[4]));
  std::copy_n(before.out.begin() + 2 * 128, 64, after.out.begin() + 2 * 128);
  after.lse[4] = before.lse[4];
  EXPECT_TRUE(before == after);
}

TEST_F(PtxDecode, EachBarrierAndWaitIsMissedWhenItIsDeleted) {
  std::mt19937_64 rng(7);
  const AttentionShape shape{20, 1, 40, 0.2};
  std::vector<Request> requests = {MakeRequest(rng, shape, 700, 2)};
  Pages pages(rng, shape, 16, 800);
  pages.Store(requests[0]);
  Decoder whole(shape, pages);
  const Decoded want = whole.Run(requests);
  ExpectNoReport(whole.m);
  int deleted = 0;
  for (const std::string instruction : {"bar.sync", "cp.async.wait_all"}) {
    const std::vector<size_t> places = PlacesOf(DecodePtx(), KernelOf(40), instruction);
    for (size_t i = 0; i < places.size(); ++i, ++deleted) {
      Decoder decoder(shape, pages, {}, Without(DecodePtx(), places[i]));
      decoder.m.options.max_reports = 1;
      const Decoded got = decoder.Run(requests);
      EXPECT_TRUE(!decoder.m.reports.empty() || got != want) << instruction << " " << i;
    }
  }
  EXPECT_GE(deleted, 8);
}

AttentionSequence SequenceAt(const std::vector<int32_t>& table, int64_t keys, int64_t queries) {
  AttentionSequence s;
  s.q_count = queries;
  s.q_offset = keys - queries;
  s.key_count = keys;
  s.block_table = table.data();
  return s;
}

TEST(DecodePlan, ReadsAChunkOnceForTheSequencesThatHaveItInCommon) {
  std::vector<int32_t> a(70), b(70);
  for (int p = 0; p < 70; ++p) a[p] = b[p] = p;
  for (int p = 40; p < 70; ++p) b[p] = 100 + p;  // from key 640 on
  std::vector<AttentionSequence> sequences = {SequenceAt(a, 1100, 1), SequenceAt(b, 1100, 2)};
  sequences[1].q_begin = 1;
  const cuda::DecodePlan plan({8, 2, 64, 1}, sequences, 16);
  ASSERT_EQ(plan.items().size(), 5u);  // chunk 0 of both, and chunks 1 and 2 of each
  EXPECT_EQ(plan.items()[0].rows, 3 * 4);
  EXPECT_EQ(plan.items()[0].chunk, 0);
  EXPECT_EQ(plan.items()[0].all_last, 511);
  int64_t rows = 0;
  for (const cuda::DecodeItem& item : plan.items()) rows += item.rows;
  EXPECT_EQ(rows, 3 * 3 * 4);
  EXPECT_EQ(plan.slots(), 3 * 3);
}

TEST(DecodePlan, CutsManyRowsAndLeavesOutChunksBeforeTheWindow) {
  std::vector<int32_t> table(200);
  const AttentionSequence s = SequenceAt(table, 3000, 3);
  const cuda::DecodePlan plan({50, 1, 64, 1, 1000}, {&s, 1}, 16);
  // The queries see keys from 1998, 1999 and 2000 on: chunks 3, 4, and 5, with 150 rows in 3 items.
  ASSERT_EQ(plan.items().size(), 9u);
  EXPECT_EQ(plan.items()[0].chunk, 3);
  EXPECT_EQ(plan.items()[0].first, 1998);
  EXPECT_EQ(plan.items()[0].all_first, 1999);  // rows 0-63 are of queries 0 and 1
  EXPECT_EQ(plan.items()[2].rows, 150 - 128);
  EXPECT_EQ(plan.queries()[1].slot, 3 - 3);
  EXPECT_EQ(plan.slots(), 9);
}

TEST(DecodePlan, TakesSequencesThatArePlainCausalAloneIntoAccount) {
  const std::vector<int32_t> table(10);
  AttentionSequence s = SequenceAt(table, 100, cuda::kDecodeQueries);
  EXPECT_TRUE(cuda::CanDecode(s));
  s = SequenceAt(table, 100, cuda::kDecodeQueries + 1);
  EXPECT_FALSE(cuda::CanDecode(s));
  s = SequenceAt(table, 100, 2);
  std::vector<int32_t> ends(100, 100), positions(100);
  for (int i = 0; i < 100; ++i) positions[i] = i;
  s.visible_end = ends.data();
  s.positions = positions.data();
  EXPECT_TRUE(cuda::CanDecode(s));
  ends[7] = 99;
  EXPECT_FALSE(cuda::CanDecode(s));
  ends[7] = 100;
  positions[50] = 49;
  EXPECT_FALSE(cuda::CanDecode(s));
  positions[50] = 50;
  s.block_table = nullptr;
  EXPECT_FALSE(cuda::CanDecode(s));
}

}  // namespace
}  // namespace ingot::standin::ptx
