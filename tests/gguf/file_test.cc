#include "gguf/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <random>

#include "base/process_memory.h"
#include "gguf/make_file.h"

namespace ingot::gguf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class GgufFile : public ::testing::Test {
 protected:
  GgufFile() {
    std::string name = (std::filesystem::temp_directory_path() / "gguf_test.XXXXXX").string();
    dir_ = ::mkdtemp(name.data());
    path_ = dir_ + "/m.gguf";
  }
  ~GgufFile() override { std::filesystem::remove_all(dir_); }

  absl::StatusOr<File> OpenBytes(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary) << bytes;
    return File::Open(path_);
  }
  // The error must name the file, and say `what`.
  void ExpectRejected(const std::string& bytes, const std::string& what) {
    const auto file = OpenBytes(bytes);
    ASSERT_FALSE(file.ok()) << what;
    EXPECT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument) << file.status();
    EXPECT_THAT(std::string(file.status().message()), HasSubstr(path_));
    EXPECT_THAT(std::string(file.status().message()), HasSubstr(what));
  }

  std::string dir_, path_;
};

FileMaker Sample() {
  FileMaker maker;
  maker.Text("general.architecture", "llama")
      .Uint32("llama.block_count", 2)
      .Float("llama.rope.freq_base", 1e4F)
      .Bool("tokenizer.ggml.add_bos_token", false)
      .Texts("tokenizer.ggml.tokens", {"a", "", "b\xC3\xA9"})
      .Numbers<int32_t>("tokenizer.ggml.token_type", 5, {1, -3, 6})
      .Numbers<float>("tokenizer.ggml.scores", 6, {0.5F, -1});
  maker.Floats("x.weight", {2, 3}, {1, 2, 3, 4, 5, 6});
  std::string half("\0\x3c\0\x40", 4);  // 1, 2
  maker.Tensor("y", {2}, 1, half);
  std::string block(34, '\x02');  // Q8_0: scale 0x0202
  maker.Tensor("z", {1, 32}, 8, block);
  return maker;
}

TEST_F(GgufFile, GivesFieldsAndTensors) {
  const auto file = OpenBytes(Sample().Bytes());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(*file->Require<std::string>("general.architecture"), "llama");
  EXPECT_EQ(*file->Require<int64_t>("llama.block_count"), 2);
  EXPECT_EQ(*file->Require<double>("llama.rope.freq_base"), 1e4);
  EXPECT_EQ(*file->FindOr<bool>("tokenizer.ggml.add_bos_token", true), false);
  EXPECT_EQ(*file->FindOr<bool>("no.such", true), true);
  EXPECT_THAT(*file->Require<std::vector<std::string>>("tokenizer.ggml.tokens"), ElementsAre("a", "", "b\xC3\xA9"));
  EXPECT_THAT(*file->Require<std::vector<int64_t>>("tokenizer.ggml.token_type"), ElementsAre(1, -3, 6));
  EXPECT_THAT(*file->Require<std::vector<double>>("tokenizer.ggml.scores"), ElementsAre(0.5, -1));

  const TensorInfo& x = file->tensors().at("x.weight");
  EXPECT_THAT(x.shape, ElementsAre(2, 3));
  std::vector<float> values(6);
  ASSERT_TRUE(file->Read(x, values.data()).ok());
  EXPECT_THAT(values, ElementsAre(1, 2, 3, 4, 5, 6));
  values.resize(2);
  ASSERT_TRUE(file->Read(file->tensors().at("y"), values.data()).ok());
  EXPECT_THAT(values, ElementsAre(1, 2));
  EXPECT_EQ(file->tensors().at("z").type->name, "Q8_0");
}

TEST_F(GgufFile, NamesAFieldThatIsMissingOrOfAnotherKind) {
  const auto file = OpenBytes(Sample().Bytes());
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->Require<int64_t>("llama.context_length").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(file->Require<int64_t>("llama.context_length").status().message()),
              HasSubstr("'llama.context_length' is missing"));
  EXPECT_THAT(std::string(file->Require<std::string>("llama.block_count").status().message()),
              HasSubstr("'llama.block_count' has a value of the wrong kind"));
}

// A large tensor is read through the bounded buffer in several parts, and blocks never lie across two.
TEST_F(GgufFile, ReadsATensorThatIsLargerThanItsBuffer) {
  std::string blocks;
  constexpr int kBlocks = 70'000;  // of 20 bytes
  for (int i = 0; i < kBlocks; ++i)
    blocks += std::string("\0\x3c\0\0", 4) + std::string(16, static_cast<char>(i % 251));
  FileMaker maker;
  maker.Tensor("big", {kBlocks, 32}, 3, blocks);
  const auto file = OpenBytes(maker.Bytes());
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<float> values(kBlocks * 32);
  ASSERT_TRUE(file->Read(file->tensors().at("big"), values.data()).ok());
  for (int i = 0; i < kBlocks; ++i) {
    ASSERT_EQ(values[32 * i + 5], i % 251 & 15) << i;
    ASSERT_EQ(values[32 * i + 20], i % 251 >> 4) << i;
  }
}

TEST_F(GgufFile, RejectsWhatIsNoGgufFile) {
  ExpectRejected("", "needs 4 bytes at byte 0, but the file has 0");
  ExpectRejected("GGUX and more of it", "is not the magic number 'GGUF'");
  std::string old = Sample().Bytes();
  old[4] = 1;
  ExpectRejected(old, "has version 1; supported: 2 and 3");
  EXPECT_FALSE(File::Open(dir_).ok());
  EXPECT_EQ(File::Open(dir_ + "/none").status().code(), absl::StatusCode::kNotFound);
}

void Put(std::string& bytes, size_t at, uint64_t value) { std::memcpy(&bytes[at], &value, sizeof(value)); }

TEST_F(GgufFile, RejectsAPipeAtOnce) {
  const std::string pipe = path_ + ".pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(std::string(File::Open(pipe).status().message()), HasSubstr("not a regular file"));
  std::filesystem::remove(pipe);
}

TEST_F(GgufFile, RejectsCountsBeyondTheFileBeforeItAllocates) {
  const std::string good = Sample().Bytes();
  std::string bytes = good;
  Put(bytes, 8, uint64_t{1} << 60);
  ExpectRejected(bytes, "claims 1152921504606846976 tensors");
  bytes = good;
  Put(bytes, 16, ~uint64_t{0});
  ExpectRejected(bytes, "claims 18446744073709551615 fields");
  bytes = good;
  Put(bytes, 24, uint64_t{1} << 40);  // the first key's length
  ExpectRejected(bytes, "field 1 of 7 claims 1099511627776 bytes of text");
  bytes = good;
  const size_t texts = bytes.find("tokenizer.ggml.tokens") + std::strlen("tokenizer.ggml.tokens") + 8;
  Put(bytes, texts, uint64_t{1} << 35);
  ExpectRejected(bytes, "field 'tokenizer.ggml.tokens' (5 of 7) claims 34359738368 texts");
}

TEST_F(GgufFile, RejectsTensorsThatTheFileCannotHave) {
  const auto one = [](std::vector<uint64_t> shape, uint32_t type, size_t bytes) {
    FileMaker maker;
    return maker.Tensor("w", std::move(shape), type, std::string(bytes, '\1')).Bytes();
  };
  ExpectRejected(one({4}, 10, 64), "tensor 'w' has the type 10, which is not supported; supported: F32, F16");
  ExpectRejected(one({3, 33}, 8, 128), "tensor 'w' has rows of 33 values, not a multiple of the 32 in a block of Q8_0");
  ExpectRejected(one({4, 0}, 0, 64), "tensor 'w' has 0 as its size");
  ExpectRejected(one({uint64_t{1} << 40, uint64_t{1} << 40}, 0, 64), "tensor 'w' has 1099511627776 as its size");
  ExpectRejected(one({1, 1, 1, 1, 4}, 0, 64), "tensor 'w' has 5 dimensions");
  ExpectRejected(one({100}, 0, 64), "tensor 'w' is at [0, +400) of 64 data bytes");
  FileMaker twice;
  twice.Floats("w", {1}, {1}).Floats("w", {1}, {1});
  ExpectRejected(twice.Bytes(), "tensor 'w' appears twice");
  FileMaker field;
  field.Uint32("a", 1).Uint32("a", 1);
  ExpectRejected(field.Bytes(), "field 'a' (2 of 2) appears twice");
}

TEST_F(GgufFile, RejectsOverlappingAndMisplacedTensors) {
  FileMaker maker;
  maker.Floats("a", {8}, std::vector<float>(8)).Floats("b", {8}, std::vector<float>(8));
  std::string bytes = maker.Bytes();
  const size_t offset = bytes.rfind(std::string("b\1\0\0\0", 5)) + 5 + 8 + 4;
  Put(bytes, offset, 0);
  ExpectRejected(bytes, "inside tensor");
  Put(bytes, offset, 8);
  ExpectRejected(bytes, "tensor 'b' is at offset 8, not a multiple of the alignment 32");
  Put(bytes, offset, uint64_t{1} << 62);
  ExpectRejected(bytes, "tensor 'b' is at [4611686018427387904, +32)");
  FileMaker aligned;
  aligned.Uint32("general.alignment", 3).Floats("a", {1}, {1});
  ExpectRejected(aligned.Bytes(), "'general.alignment' must be a power of two");
}

TEST_F(GgufFile, EveryTruncationIsRejectedInWords) {
  const std::string good = Sample().Bytes();
  for (size_t size = 0; size + 32 < good.size(); ++size) {  // the last tensor's padding may be missing
    const auto file = OpenBytes(good.substr(0, size));
    ASSERT_FALSE(file.ok()) << size;
    EXPECT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(file.status().message()), HasSubstr(path_));
  }
}

// Whatever the bytes are, the file is read or refused, in bounded memory, and a file that is read gives all its tensors.
TEST_F(GgufFile, DamagedBytesAreReadOrRejected) {
  const std::string good = Sample().Bytes();
  std::mt19937 random(1);
  int rejected = 0;
  const int64_t before = base::ResidentMemory();
  for (int round = 0; round < 4000; ++round) {
    std::string bytes = good;
    const int flips = 1 + static_cast<int>(random() % 4);
    for (int i = 0; i < flips; ++i) bytes[random() % bytes.size()] = static_cast<char>(random());
    if (round % 3 == 0) bytes.resize(random() % (bytes.size() + 1));
    const auto file = OpenBytes(bytes);
    if (!file.ok()) {
      ++rejected;
      continue;
    }
    for (const auto& [name, info] : file->tensors()) {
      ASSERT_LE(info.bytes, bytes.size());
      std::vector<float> values(info.elements);
      EXPECT_TRUE(file->Read(info, values.data()).ok());
    }
  }
  EXPECT_GT(rejected, 1000);
  EXPECT_LT(rejected, 4000);
  EXPECT_LT(base::ResidentMemory() - before, 64 << 20);
}

}  // namespace
}  // namespace ingot::gguf
