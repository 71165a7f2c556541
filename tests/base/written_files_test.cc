// That any damage to a recorded folder is an error, and that a folder without a record has nothing to compare with.
#include "base/written_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/file.h"

namespace ingot::base {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class WrittenFilesTest : public ::testing::Test {
 protected:
  WrittenFilesTest() {
    std::string pattern = ::testing::TempDir() + "/written_files_XXXXXX";
    dir_ = ::mkdtemp(pattern.data());
    fs::create_directory(dir_ + "/templates");
    Write("model.safetensors", "weights");
    Write("templates/tools.jinja", "x");
  }
  ~WrittenFilesTest() override { fs::remove_all(dir_); }

  void Write(const std::string& name, const std::string& text) {
    std::ofstream(dir_ + "/" + name, std::ios::binary | std::ios::trunc) << text;
  }
  std::string Read(const std::string& name) const { return ReadFile(dir_ + "/" + name).value(); }
  // Of all files.
  absl::Status Check() const {
    INGOT_ASSIGN_OR_RETURN(const WrittenFiles written, WrittenFiles::Of(dir_));
    return written.CheckContents([](std::string_view) { return true; });
  }
  std::string Fault() const {
    const absl::Status status = Check();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    return std::string(status.message());
  }

  std::string dir_;
};

TEST_F(WrittenFilesTest, AFlippedBitOfAnyFileIsRejectedByName) {
  ASSERT_TRUE(WriteChecksums(dir_).ok());
  ASSERT_TRUE(Check().ok()) << Check();
  for (const std::string name : {"model.safetensors", "templates/tools.jinja"}) {
    const std::string intact = Read(name);
    for (size_t bit = 0; bit < 8 * intact.size(); ++bit) {
      std::string flipped = intact;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
      Write(name, flipped);
      ASSERT_THAT(Fault(), HasSubstr(dir_ + "/" + name + " is damaged")) << bit;
    }
    Write(name, intact);
  }
  Write("model.safetensors", "WEIGHTS");
  EXPECT_THAT(
      Fault(),
      AllOf(HasSubstr("its checksum (XXH3) is "), HasSubstr(", but the written file had "),
            HasSubstr("(checksums.json next to it): copy the folder again, or use another checkpoint; if it was "
                      "changed on purpose, remove checksums.json")));
}

TEST_F(WrittenFilesTest, AFileThatIsCutOffOrGoneIsRejectedByName) {
  ASSERT_TRUE(WriteChecksums(dir_).ok());
  Write("model.safetensors", "weig");
  EXPECT_THAT(Fault(), HasSubstr("/model.safetensors is damaged: it has 4 bytes, but 7 were written"));
  fs::remove(dir_ + "/model.safetensors");
  EXPECT_THAT(Fault(),
              HasSubstr("/model.safetensors, which checksums.json next to it lists with 7 bytes, cannot be read"));
}

TEST_F(WrittenFilesTest, AFlippedBitOfTheRecordIsRejected) {
  const std::string state = Seal(json::object{{"format", "ingot-checkpoint-4"},
                                              {"weights_checksum", "0123456789abcdef"},
                                              {"files", PrintDigests({{"model.safetensors", {7, 8}}})}});
  ASSERT_TRUE(WriteChecksums(dir_).ok());
  const std::string checksums = Read(kChecksums);
  fs::remove(dir_ + "/" + kChecksums);
  for (const auto& [name, intact] : {std::pair(kChecksums, checksums), std::pair(kCheckpointState, state)}) {
    for (size_t bit = 0; bit < 8 * intact.size(); ++bit) {
      std::string flipped = intact;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
      Write(name, flipped);
      ASSERT_THAT(Fault(), HasSubstr(absl::StrCat(dir_, "/", name, " is damaged"))) << bit;
    }
    Write(name, intact.substr(0, intact.size() / 2));
    EXPECT_THAT(Fault(), HasSubstr(absl::StrCat("/", name, " is damaged")));
    Write(name, "");
    EXPECT_THAT(Fault(), HasSubstr(absl::StrCat("/", name, " is damaged")));
    fs::remove(dir_ + "/" + name);
  }
}

TEST_F(WrittenFilesTest, FilesOfTheseNamesThatOthersWroteAreNoRecord) {
  for (const char* const name : {kChecksums, kCheckpointState}) {
    for (const char* const text : {R"({"model.safetensors": "sha256:0123"})", R"({"loss": NaN})", "{}\n{}\n"}) {
      Write(name, text);
      EXPECT_TRUE(Check().ok()) << name << ": " << Check();
    }
    fs::remove(dir_ + "/" + name);
  }
}

TEST_F(WrittenFilesTest, AFolderWithoutARecordIsNotCompared) {
  EXPECT_TRUE(Check().ok());
  EXPECT_TRUE(CheckWritten(dir_ + "/model.safetensors", "other").ok());
  EXPECT_TRUE(CheckWritten("none", "other").ok());
  Write(kCheckpointState, "{\"iteration\": 4}");  // of another program
  EXPECT_TRUE(Check().ok()) << Check();
  Write(kCheckpointState, "{\"format\":\"ingot-checkpoint-2\",\"weights_checksum\":\"00\"}");
  EXPECT_TRUE(Check().ok()) << Check();
}

TEST_F(WrittenFilesTest, AFileThatTheRecordDoesNotListIsNotCompared) {
  ASSERT_TRUE(WriteChecksums(dir_).ok());
  Write("README.md", "x");
  EXPECT_TRUE(CheckWritten(dir_ + "/README.md", "y").ok());
  EXPECT_FALSE(CheckWritten(dir_ + "/model.safetensors", "y").ok());
  EXPECT_TRUE(CheckWritten(dir_ + "/model.safetensors", "weights").ok());
}

TEST_F(WrittenFilesTest, ARemovedRecordIsGone) {
  ASSERT_TRUE(WriteChecksums(dir_).ok());
  Write("model.safetensors", "anew");
  ASSERT_TRUE(RemoveChecksums(dir_).ok());
  ASSERT_TRUE(RemoveChecksums(dir_).ok()) << "there is none any more";
  EXPECT_TRUE(Check().ok());
  ASSERT_TRUE(WriteChecksums(dir_).ok());
  EXPECT_TRUE(Check().ok());
}

}  // namespace
}  // namespace ingot::base
