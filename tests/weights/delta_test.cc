#include "weights/delta.h"

#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>

#include "base/checksum.h"
#include "weights/make_snapshot.h"

namespace ingot::weights {
namespace {

using testing::RandomBytes;
using testing::SameWeights;
using testing::Tensors;

// Changes each element with probability `density`: its low bits, as a small step of the optimizer does, or all bits.
void Perturb(std::mt19937_64& rng, std::string& bytes, int64_t element_bytes, double density) {
  std::uniform_real_distribution<double> uniform;
  for (size_t i = 0; i + element_bytes <= bytes.size(); i += element_bytes) {
    if (uniform(rng) >= density) continue;
    bytes[i] ^= static_cast<char>(1 + rng() % 255);
    if (rng() % 4 == 0) bytes[i + element_bytes - 1] ^= static_cast<char>(rng());
  }
}

Tensors RandomModel(std::mt19937_64& rng, bool large) {
  Tensors tensors;
  const int count = 1 + rng() % 6;
  for (int i = 0; i < count; ++i) {
    const char* const dtypes[] = {"F32", "BF16", "F16"};
    const std::string dtype = dtypes[rng() % 3];
    std::vector<int64_t> shape;
    int64_t elements = 1;
    const int dims = rng() % 3;
    for (int d = 0; d < dims; ++d) {
      shape.push_back(rng() % (large ? 200 : 9));
      elements *= shape.back();
    }
    const int64_t bytes = elements * DtypeBytes(dtype).value();
    tensors.Add("t" + std::to_string(i), dtype, shape,
                rng() % 5 == 0 ? std::string(bytes, 0) : RandomBytes(rng, bytes));
  }
  return tensors;
}

TEST(Delta, AppliedToItsBaseIsTheTargetBitForBit) {
  std::mt19937_64 rng(1);
  std::map<v1::TensorCoding, int> seen;
  for (int round = 0; round < 600; ++round) {
    Tensors tensors = RandomModel(rng, round % 3 == 0);
    const auto base = tensors.TakeSnapshot(round);
    const double densities[] = {0, 0.0005, 0.01, 0.1, 0.5, 1};
    for (size_t i = 0; i < tensors.bytes.size(); ++i) {
      Perturb(rng, tensors.bytes[i], DtypeBytes(tensors.views[i].dtype).value(), densities[rng() % 6]);
      if (rng() % 8 == 0) tensors.bytes[i] = RandomBytes(rng, tensors.bytes[i].size());
      if (rng() % 8 == 0) tensors.bytes[i].assign(tensors.bytes[i].size(), '\0');
    }
    const auto target = tensors.TakeSnapshot(round + 1);
    CodecOptions options;
    options.zstd_level = round % 4 == 0 ? 3 : 1;
    const auto delta = Encode(base.get(), *target, false, options);
    ASSERT_TRUE(delta.ok()) << delta.status();
    for (size_t i = 0; i < delta->tensors.size(); ++i) {
      ++seen[delta->tensors[i].coding()];
      EXPECT_LE(delta->tensors[i].payload().size(), target->bytes(i).size() + 9);
    }
    const auto applied = Apply(base, *delta);
    ASSERT_TRUE(applied.ok()) << applied.status();
    EXPECT_TRUE(SameWeights(**applied, *target));
    const auto full = Encode(nullptr, *target, false);
    EXPECT_TRUE(SameWeights(**Apply(nullptr, *full), *target));
    EXPECT_TRUE(SameWeights(**Apply(base, *full), *target));
  }
  for (const auto coding : {v1::TENSOR_FULL, v1::TENSOR_UNCHANGED, v1::TENSOR_XOR, v1::TENSOR_SPARSE, v1::TENSOR_ULP}) {
    EXPECT_GT(seen[coding], 10) << v1::TensorCoding_Name(coding);
  }
}

TEST(Delta, CountsChangedElementsAndSharesUnchangedTensors) {
  Tensors tensors;
  tensors.Add("a", "F32", {1000}, std::string(4000, 'x'));
  tensors.Add("b", "BF16", {1000}, std::string(2000, 'y'));
  const auto base = tensors.TakeSnapshot(1);
  tensors.bytes[1][0] = 'z';
  tensors.bytes[1][1] = 'z';  // both bytes of element 0
  tensors.bytes[1][1998] = 'z';
  const auto target = tensors.TakeSnapshot(2);
  const auto beside = EncodeHeld(*target);
  ASSERT_TRUE(beside.ok());
  EXPECT_TRUE(beside->header.retain() && beside->header.beside() && IsFullCopy(beside->header));
  EXPECT_TRUE(SameWeights(**Apply(nullptr, *beside), *target));
  auto forged = *beside;
  forged.header.set_beside(false);
  EXPECT_EQ(Apply(nullptr, forged).status().code(), absl::StatusCode::kDataLoss);
  const auto delta = Encode(base.get(), *target, true);
  EXPECT_EQ(delta->changed_elements, 2);
  EXPECT_EQ(delta->total_elements, 2000);
  EXPECT_EQ(delta->header.raw_bytes(), 6000);
  EXPECT_TRUE(delta->header.retain());
  EXPECT_EQ(delta->tensors[0].coding(), v1::TENSOR_UNCHANGED);
  EXPECT_EQ(delta->tensors[1].coding(), v1::TENSOR_ULP);
  EXPECT_LT(delta->tensors[1].payload().size(), 40u);
  EXPECT_DOUBLE_EQ(Density(base.get(), *target), 0.001);
  EXPECT_DOUBLE_EQ(Density(nullptr, *target), 1);
  const auto applied = Apply(base, *delta).value();
  EXPECT_EQ(applied->bytes(0).data(), base->bytes(0).data());
  EXPECT_NE(applied->bytes(1).data(), base->bytes(1).data());
}

TEST(Delta, IsAFullCopyWhenTensorsDiffer) {
  Tensors one, two;
  one.Add("a", "F32", {2}, "12345678");
  two.Add("a", "F32", {1, 2}, "12345678");
  const auto base = one.TakeSnapshot(1);
  const auto target = two.TakeSnapshot(2);
  const auto delta = Encode(base.get(), *target, false);
  EXPECT_TRUE(IsFullCopy(delta->header));
  EXPECT_TRUE(SameWeights(**Apply(base, *delta), *target));
}

TEST(Delta, RejectsEveryOtherBase) {
  Tensors tensors;
  tensors.Add("a", "F32", {256}, std::string(1024, 'x'));
  const auto base = tensors.TakeSnapshot(1);
  const auto same_weights_later = tensors.TakeSnapshot(2);
  tensors.bytes[0][5] = 'y';
  const auto target = tensors.TakeSnapshot(3);
  tensors.bytes[0][9] = 'z';
  const auto other = tensors.TakeSnapshot(1);
  const auto delta = Encode(base.get(), *target, false).value();
  EXPECT_TRUE(Apply(base, delta).ok());
  EXPECT_EQ(Apply(nullptr, delta).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Apply(other, delta).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Apply(target, delta).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Apply(same_weights_later, delta).status().code(), absl::StatusCode::kFailedPrecondition);
}

// One tensor of each coding.
struct Pair {
  std::shared_ptr<const Snapshot> base, target;
};
Pair OfEachCoding() {
  std::mt19937_64 rng(3);
  Tensors tensors;
  tensors.Add("full", "F32", {40}, RandomBytes(rng, 160));
  tensors.Add("same", "F32", {40}, RandomBytes(rng, 160));
  tensors.Add("sparse", "F16", {300}, RandomBytes(rng, 600));
  tensors.Add("ulp", "BF16", {300}, RandomBytes(rng, 600));
  tensors.Add("xor", "F32", {100}, RandomBytes(rng, 400));
  Pair pair;
  pair.base = tensors.TakeSnapshot(1);
  tensors.bytes[0] = RandomBytes(rng, 160);
  tensors.bytes[2][100] ^= 3;
  tensors.bytes[2][500] ^= 7;
  for (size_t i = 0; i < 600; i += 14) tensors.bytes[3][i] ^= static_cast<char>(1 + rng() % 3);
  tensors.bytes[3][301] ^= static_cast<char>(0x80);  // a sign: a distance of two bytes
  for (size_t i = 0; i < 400; i += 4) tensors.bytes[4][i] ^= static_cast<char>(rng() % 4);
  pair.target = tensors.TakeSnapshot(2);
  return pair;
}

// Every header that differs from `header` in one bit of one field, in its manifest too.
std::vector<v1::DeltaHeader> FlippedHeaders(const v1::DeltaHeader& header) {
  std::vector<v1::DeltaHeader> flipped;
  for (int bit = 0; bit < 64; ++bit) {
    const uint64_t mask = uint64_t{1} << bit;
    const auto add = [&](auto&& change) { change(flipped.emplace_back(header)); };
    add([&](auto& h) { h.mutable_target()->set_version(h.target().version() ^ mask); });
    add([&](auto& h) { h.mutable_target()->set_checksum(h.target().checksum() ^ mask); });
    add([&](auto& h) { h.set_base_version(h.base_version() ^ mask); });
    add([&](auto& h) { h.set_base_checksum(h.base_checksum() ^ mask); });
    add([&](auto& h) { h.set_raw_bytes(h.raw_bytes() ^ mask); });
    add([&](auto& h) { h.set_checksum(h.checksum() ^ mask); });
    for (int i = 0; i < header.target().tensors_size(); ++i) {
      const auto add_to_tensor = [&](auto&& change) {
        add([&](auto& h) { change(*h.mutable_target()->mutable_tensors(i)); });
      };
      add_to_tensor([&](auto& t) { t.set_checksum(t.checksum() ^ mask); });
      add_to_tensor([&](auto& t) { t.set_shape(0, t.shape(0) ^ mask); });
      if (bit < 8) add_to_tensor([&](auto& t) { (*t.mutable_name())[1] ^= static_cast<char>(mask); });
      if (bit < 8) add_to_tensor([&](auto& t) { (*t.mutable_dtype())[1] ^= static_cast<char>(mask); });
    }
  }
  flipped.emplace_back(header).set_retain(!header.retain());
  return flipped;
}

TEST(Delta, RejectsEveryFlippedBitAndHealsByAFullCopy) {
  const Pair pair = OfEachCoding();
  const EncodedDelta good = Encode(pair.base.get(), *pair.target, true).value();
  ASSERT_EQ(good.tensors[0].coding(), v1::TENSOR_FULL);
  ASSERT_EQ(good.tensors[1].coding(), v1::TENSOR_UNCHANGED);
  ASSERT_EQ(good.tensors[2].coding(), v1::TENSOR_SPARSE);
  ASSERT_EQ(good.tensors[3].coding(), v1::TENSOR_ULP);
  ASSERT_EQ(good.tensors[4].coding(), v1::TENSOR_XOR);
  for (const bool full_copy : {false, true}) {
    const EncodedDelta sent = full_copy ? Encode(nullptr, *pair.target, true).value() : good;
    for (size_t tensor = 0; tensor < sent.tensors.size(); ++tensor) {
      for (size_t bit = 0; bit < sent.tensors[tensor].payload().size() * 8; ++bit) {
        EncodedDelta bad = sent;
        (*bad.tensors[tensor].mutable_payload())[bit / 8] ^= static_cast<char>(1 << (bit % 8));
        EXPECT_EQ(Apply(pair.base, bad).status().code(), absl::StatusCode::kDataLoss) << tensor << " bit " << bit;
      }
    }
  }
  std::vector<v1::DeltaHeader> flipped = FlippedHeaders(good.header);
  EXPECT_GT(flipped.size(), 900u);
  for (const v1::DeltaHeader& header : flipped) {
    EncodedDelta bad = good;
    bad.header = header;
    EXPECT_FALSE(Apply(pair.base, bad).ok()) << header.ShortDebugString();
  }
  EXPECT_TRUE(SameWeights(**Apply(pair.base, Encode(nullptr, *pair.target, true).value()), *pair.target));
}

// These payloads have right checksums: a decoder that trusted checksums alone would accept them.
std::string Sealed(int tensor, v1::TensorCoding coding, std::string form_and_body) {
  std::string place;
  for (int i = 0; i < 4; ++i) place.push_back(static_cast<char>(tensor >> (8 * i)));
  for (int i = 0; i < 4; ++i) place.push_back(static_cast<char>(coding >> (8 * i)));
  const uint64_t sum = base::Checksum64(place + form_and_body);
  for (int i = 0; i < 8; ++i) form_and_body.push_back(static_cast<char>(sum >> (8 * i)));
  return form_and_body;
}

TEST(Delta, SurvivesHostilePayloadsWithRightChecksums) {
  const Pair pair = OfEachCoding();
  const EncodedDelta good = Encode(pair.base.get(), *pair.target, false).value();
  std::mt19937_64 rng(11);
  for (int round = 0; round < 40000; ++round) {
    EncodedDelta bad = good;
    const int tensor = rng() % 5;
    const v1::TensorCoding codings[] = {v1::TENSOR_FULL, v1::TENSOR_XOR, v1::TENSOR_SPARSE, v1::TENSOR_ULP,
                                        static_cast<v1::TensorCoding>(9)};
    const v1::TensorCoding coding = codings[rng() % 5];
    std::string body;
    if (rng() % 2 == 0 && good.tensors[tensor].payload().size() > 9) {
      body = good.tensors[tensor].payload();
      body.resize(body.size() - 8);
      for (int edits = 1 + rng() % 3; edits > 0; --edits)
        body[rng() % body.size()] ^= static_cast<char>(1 << rng() % 8);
    } else {
      body = std::string(1, static_cast<char>(rng() % 3)) + RandomBytes(rng, rng() % 40);
      if (rng() % 2 == 0 && body.size() > 9) {  // a plausible count
        for (int i = 2; i < 9; ++i) body[i] = 0;
        body[1] = static_cast<char>(rng() % 12);
      }
    }
    bad.tensors[tensor].set_coding(coding);
    bad.tensors[tensor].set_payload(Sealed(tensor, coding, body));
    const auto applied = Apply(pair.base, bad);
    // An edit that does not decode to the very same bytes is refused.
    EXPECT_TRUE(!applied.ok() || SameWeights(**applied, *pair.target));
  }
}

// A version whose tensors have several slices, changed at about 2 %.
Pair OfSeveralSlices(std::shared_ptr<Changes> changes = nullptr) {
  std::mt19937_64 rng(7);
  Tensors tensors;
  tensors.Add("a", "BF16", {(3 << 20) + 77}, RandomBytes(rng, 2 * ((3 << 20) + 77)));
  tensors.Add("b", "BF16", {5}, RandomBytes(rng, 10));
  tensors.Add("c", "F32", {1000}, RandomBytes(rng, 4000));
  tensors.Add("d", "BF16", {1 << 20}, RandomBytes(rng, 2 << 20));
  Pair pair;
  pair.base = tensors.TakeSnapshot(1);
  for (const size_t tensor : {0, 1, 2}) {
    for (size_t i = 0; i < tensors.bytes[tensor].size(); i += 2 * (1 + rng() % 100)) tensors.bytes[tensor][i] += 1;
  }
  if (changes == nullptr) {
    pair.target = tensors.TakeSnapshot(2);
    return pair;
  }
  changes->base_checksum = pair.base->checksum();
  for (const size_t tensor : {0, 1, 3}) {
    ChangeMask mask(static_cast<int64_t>(tensors.bytes[tensor].size()) / 2);
    CompareWords(pair.base->bytes(tensor).data(), std::as_bytes(std::span(tensors.bytes[tensor])).data(), mask.words(),
                 mask.entries().data());
    changes->masks[tensors.views[tensor].name] = std::move(mask);
  }
  pair.target = Snapshot::Copy(2, tensors.Views(), {.threads = 2, .changes = changes}).value();
  return pair;
}

std::vector<std::string> Payloads(const EncodedDelta& delta) {
  std::vector<std::string> payloads;
  for (const v1::TensorDelta& tensor : delta.tensors) payloads.push_back(tensor.SerializeAsString());
  return payloads;
}

TEST(Delta, IsTheSameOnAnyNumberOfThreads) {
  const Pair pair = OfSeveralSlices();
  const EncodedDelta one = Encode(pair.base.get(), *pair.target, false).value();
  EXPECT_EQ(one.tensors[3].coding(), v1::TENSOR_UNCHANGED);
  const auto pool = std::make_shared<BufferPool>();
  for (const int threads : {2, 3}) {
    const CodecOptions options{.threads = threads, .buffers = pool};
    const EncodedDelta many = Encode(pair.base.get(), *pair.target, false, options).value();
    EXPECT_EQ(Payloads(many), Payloads(one));
    EXPECT_EQ(many.changed_elements, one.changed_elements);
    EXPECT_TRUE(SameWeights(**Apply(pair.base, many, options), *pair.target));
  }
  EXPECT_GT(pool->free_bytes(), 0);
}

TEST(Delta, ReadsOnlyTheWordsThatAreMarked) {
  const auto changes = std::make_shared<Changes>();
  const Pair marked = OfSeveralSlices(changes);
  const EncodedDelta compared = Encode(OfSeveralSlices().base.get(), *OfSeveralSlices().target, false).value();
  EXPECT_EQ(Payloads(Encode(marked.base.get(), *marked.target, false).value()), Payloads(compared));
  const double density = static_cast<double>(compared.changed_elements) / static_cast<double>(compared.total_elements);
  EXPECT_DOUBLE_EQ(Density(marked.base.get(), *marked.target), density);

  // More marks than changes cost nothing but time.
  for (uint64_t& entry : changes->masks.at("d").entries()) entry = 0x5555;
  EXPECT_EQ(Payloads(Encode(marked.base.get(), *marked.target, false).value()), Payloads(compared));

  // A word that nobody marked stays as it was; the engine finds that out and asks for a full copy.
  for (uint64_t& entry : changes->masks.at("b").entries()) entry = 0;
  const EncodedDelta wrong = Encode(marked.base.get(), *marked.target, false).value();
  EXPECT_EQ(Apply(marked.base, wrong).status().code(), absl::StatusCode::kDataLoss);

  // Marks of another base, or of a tensor of another size, are not used.
  changes->masks["b"] = ChangeMask(4);
  EXPECT_EQ(Payloads(Encode(marked.base.get(), *marked.target, false).value()), Payloads(compared));
  changes->base_checksum ^= 1;
  changes->masks["b"] = ChangeMask(5);
  EXPECT_EQ(Payloads(Encode(marked.base.get(), *marked.target, false).value()), Payloads(compared));
}

TEST(Delta, DecompressesNoMoreThanTheManifestAllows) {
  Tensors zeros;
  zeros.Add("a", "F32", {1 << 20}, std::string(4 << 20, '\0'));
  const EncodedDelta bomb = Encode(nullptr, *zeros.TakeSnapshot(1), false).value();
  ASSERT_LT(bomb.tensors[0].payload().size(), 4096u);
  Tensors small;
  small.Add("a", "F32", {4096}, std::string(4 * 4096, 'x'));
  EncodedDelta delta = Encode(nullptr, *small.TakeSnapshot(1), false).value();
  delta.tensors = bomb.tensors;
  EXPECT_EQ(Apply(nullptr, delta).status().code(), absl::StatusCode::kDataLoss);
  CodecOptions tight;
  tight.max_bytes = (4 << 20) - 1;
  EXPECT_EQ(Apply(nullptr, bomb, tight).status().code(), absl::StatusCode::kInvalidArgument);
}

EncodedDelta ThroughChunks(const EncodedDelta& delta, size_t max_bytes) {
  ChunkAssembler assembler;
  ToChunks(delta, max_bytes, [&](const v1::WeightChunk& chunk) {
    EXPECT_LE(chunk.tensor().payload().size(), max_bytes);
    EXPECT_LE(chunk.continuation().size(), max_bytes);
    EXPECT_TRUE(assembler.Add(chunk).ok());
    return true;
  });
  return assembler.Finish().value();
}

TEST(Chunks, PutTogetherAreTheDelta) {
  const Pair pair = OfEachCoding();
  for (const size_t max_bytes : {1, 7, 64, 1 << 20}) {
    for (const Snapshot* base : {pair.base.get(), static_cast<const Snapshot*>(nullptr)}) {
      const EncodedDelta delta = ThroughChunks(Encode(base, *pair.target, false).value(), max_bytes);
      EXPECT_TRUE(SameWeights(**Apply(pair.base, delta), *pair.target));
    }
  }
}

TEST(Chunks, StopWhenTheReceiverHasEnough) {
  const Pair pair = OfEachCoding();
  int emitted = 0;
  ToChunks(Encode(nullptr, *pair.target, false).value(), 1, [&](const v1::WeightChunk&) { return ++emitted < 5; });
  EXPECT_EQ(emitted, 5);
}

TEST(Chunks, RejectAWrongOrderAndMissingParts) {
  const Pair pair = OfEachCoding();
  std::vector<v1::WeightChunk> chunks;
  ToChunks(Encode(pair.base.get(), *pair.target, false).value(), 50, [&](const v1::WeightChunk& chunk) {
    chunks.push_back(chunk);
    return true;
  });
  const auto whole = [](const std::vector<v1::WeightChunk>& sent) {
    ChunkAssembler assembler;
    absl::Status status;
    for (const auto& chunk : sent) status.Update(assembler.Add(chunk));
    const auto delta = assembler.Finish();
    EXPECT_EQ(status.ok() || !delta.ok(), true);  // after a refusal, Finish fails too
    return delta.ok();
  };
  ASSERT_TRUE(whole(chunks));
  EXPECT_FALSE(whole({}));
  EXPECT_FALSE(whole({chunks.begin() + 1, chunks.end()}));
  EXPECT_FALSE(whole({chunks.begin(), chunks.end() - 1}) && whole({chunks.begin(), chunks.begin() + 2}));
  std::vector<v1::WeightChunk> twice = chunks;
  twice.insert(twice.begin(), chunks[0]);
  EXPECT_FALSE(whole(twice));
  for (size_t i = 1; i < chunks.size(); ++i) {  // a tensor left out
    if (!chunks[i].has_tensor()) continue;
    std::vector<v1::WeightChunk> less = chunks;
    less.erase(less.begin() + i);
    EXPECT_FALSE(whole(less));
  }
  std::vector<v1::WeightChunk> empty = chunks;
  empty.push_back({});
  EXPECT_FALSE(whole(empty));
}

TEST(Chunks, FuzzedStreamsNeverBecomeAnotherVersion) {
  google::protobuf::LogSilencer silencer;
  const Pair pair = OfEachCoding();
  std::vector<std::string> chunks;
  ToChunks(Encode(pair.base.get(), *pair.target, false).value(), 30, [&](const v1::WeightChunk& chunk) {
    chunks.push_back(chunk.SerializeAsString());
    return true;
  });
  std::mt19937_64 rng(5);
  int applied_count = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::string> sent = chunks;
    for (int edits = 1 + rng() % 2; edits > 0; --edits) {
      const size_t at = rng() % sent.size();
      switch (rng() % 5) {
        case 0:
          sent.erase(sent.begin() + at);
          break;
        case 1:
          sent.insert(sent.begin() + at, sent[rng() % sent.size()]);
          break;
        case 2:
          std::swap(sent[at], sent[rng() % sent.size()]);
          break;
        case 3:
          sent[at].resize(rng() % (sent[at].size() + 1));
          break;
        default:
          if (!sent[at].empty()) sent[at][rng() % sent[at].size()] ^= static_cast<char>(1 << rng() % 8);
      }
      if (sent.empty()) break;
    }
    ChunkAssembler assembler;
    bool fine = true;
    for (const std::string& bytes : sent) {
      v1::WeightChunk chunk;
      fine = fine && chunk.ParseFromString(bytes) && assembler.Add(chunk).ok();
    }
    const auto delta = assembler.Finish();
    if (!fine || !delta.ok()) continue;
    const auto applied = Apply(pair.base, *delta);
    if (!applied.ok()) continue;
    EXPECT_TRUE(SameWeights(**applied, *pair.target));
    ++applied_count;
  }
  EXPECT_LT(applied_count, 1000);  // edits that cancel out, or cut the stream at other places
}

TEST(Chunks, APayloadNeverGrowsPastItsTensor) {
  Tensors tensors;
  tensors.Add("a", "F32", {4}, std::string(16, 'x'));
  ChunkAssembler assembler;
  v1::WeightChunk chunk;
  ToChunks(Encode(nullptr, *tensors.TakeSnapshot(1), false).value(), 1 << 20, [&](const v1::WeightChunk& part) {
    EXPECT_TRUE(assembler.Add(part).ok());
    return true;
  });
  chunk.set_continuation(std::string(16, 'y'));
  EXPECT_EQ(assembler.Add(chunk).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(assembler.Finish().ok());
}

TEST(Delta, FourMegabytesTakeMilliseconds) {
  std::mt19937_64 rng(9);
  std::normal_distribution<float> normal(0, 0.02f);
  std::string weights(4 << 20, '\0');
  for (size_t i = 0; i < weights.size(); i += 4) {
    const float value = normal(rng);
    std::memcpy(&weights[i], &value, 4);
  }
  Tensors tensors;
  for (int i = 0; i < 8; ++i) tensors.Add("t" + std::to_string(i), "F32", {1 << 17}, weights.substr(i << 19, 1 << 19));
  const auto base = tensors.TakeSnapshot(1);
  for (std::string& bytes : tensors.bytes) {  // every weight moves a little, as after an optimizer step
    for (size_t i = 0; i < bytes.size(); i += 4) {
      float value;
      std::memcpy(&value, &bytes[i], 4);
      value += 1e-4f * normal(rng);
      std::memcpy(&bytes[i], &value, 4);
    }
  }
  const auto start = std::chrono::steady_clock::now();
  const auto target = tensors.TakeSnapshot(2);
  const auto taken = std::chrono::steady_clock::now();
  const auto delta = Encode(base.get(), *target, false).value();
  const auto encoded = std::chrono::steady_clock::now();
  const auto applied = Apply(base, delta).value();
  const auto end = std::chrono::steady_clock::now();
  const auto full = Encode(nullptr, *target, false).value();
  const auto full_end = std::chrono::steady_clock::now();
  EXPECT_TRUE(SameWeights(*applied, *target));
  const auto ms = [](auto duration) { return std::chrono::duration<double, std::milli>(duration).count(); };
  std::printf("copy %.2f ms, encode %.2f ms, apply %.2f ms, %lld of %lld bytes; full: encode %.2f ms, %lld bytes\n",
              ms(taken - start), ms(encoded - taken), ms(end - encoded), static_cast<long long>(delta.wire_bytes()),
              static_cast<long long>(target->total_bytes()), ms(full_end - end),
              static_cast<long long>(full.wire_bytes()));
  EXPECT_LT(delta.wire_bytes(), target->total_bytes());
}

}  // namespace
}  // namespace ingot::weights
