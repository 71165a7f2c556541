#include "dataset/jsonl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "dataset/conversations.h"
#include "dataset/tasks.h"

namespace ingot::dataset {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A temporary file, removed at the end of the test.
class TempFile {
 public:
  explicit TempFile(const std::string& text) {
    static int count = 0;
    path_ = testing::TempDir() + absl::StrCat("jsonl_", getpid(), "_", count++, ".jsonl");
    std::ofstream(path_, std::ios::binary) << text;
  }
  ~TempFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string TaskError(const std::string& text, const JsonlOptions& options = {}) {
  const TempFile file(text);
  const auto tasks = LoadTasks(file.path(), options);
  EXPECT_EQ(tasks.status().code(), absl::StatusCode::kInvalidArgument) << text;
  const std::string message(tasks.status().message());
  EXPECT_TRUE(message.starts_with(file.path() + ":")) << message;
  return message.substr(std::min(file.path().size(), message.size()));
}

TEST(JsonlTest, LinesComeInOrderWithTheirNumbers) {
  const TempFile file("\xEF\xBB\xBF{\"a\": 1}\r\n\n  \n{\"a\": \"\\n\"}\n{\"a\":3}");
  std::vector<std::string> seen;
  ASSERT_TRUE(ReadJsonl(file.path(), {}, [&](int64_t number, std::string_view text, const base::json::value&) {
                seen.push_back(absl::StrCat(number, " ", std::string(text)));
                return absl::OkStatus();
              }).ok());
  EXPECT_THAT(seen, ElementsAre("1 {\"a\": 1}", "4 {\"a\": \"\\n\"}", "5 {\"a\":3}"));
}

TEST(JsonlTest, ANamedPipeIsRejectedAndAFolderToo) {
  const TempFile file("");
  std::filesystem::remove(file.path());
  ASSERT_EQ(mkfifo(file.path().c_str(), 0600), 0);
  for (const std::string& path : {file.path(), testing::TempDir()}) {
    const absl::Status rejected = LoadConversations(path).status();
    EXPECT_TRUE(absl::IsInvalidArgument(rejected)) << rejected;
    EXPECT_THAT(std::string(rejected.message()), HasSubstr(path));
  }
  EXPECT_THAT(std::string(LoadTasks(file.path()).status().message()), HasSubstr("is a named pipe (FIFO), not a file"));
}

TEST(JsonlTest, LinesLongerThanAChunkAreWhole) {
  std::mt19937 rng(1);
  std::string text;
  std::vector<std::string> lines, seen;
  for (int i = 0; i < 20; ++i) {
    lines.push_back("{\"a\":\"" + std::string(rng() % 200000, 'x') + "\"}");
    text += lines.back() + "\n";
  }
  const TempFile file(text);
  ASSERT_TRUE(ReadJsonl(file.path(), {}, [&](int64_t, std::string_view line, const base::json::value&) {
                seen.emplace_back(line);
                return absl::OkStatus();
              }).ok());
  EXPECT_EQ(seen, lines);
}

TEST(JsonlTest, FilesThatCannotBeReadAreNamed) {
  EXPECT_EQ(LoadTasks("/nowhere/tasks.jsonl").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(LoadTasks(testing::TempDir()).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(LoadTasks("/nowhere/tasks.jsonl").status().message()), HasSubstr("/nowhere/tasks.jsonl"));
}

TEST(JsonlTest, LimitsHold) {
  JsonlOptions options;
  options.max_line_bytes = 10;
  EXPECT_THAT(TaskError("{\"a\":1}\n{\"a\":12345678}\n", options),
              HasSubstr(":2: the line is longer than the limit of 10 bytes"));
  options = {};
  options.max_lines = 2;
  EXPECT_THAT(TaskError("{\"a\":1}\n{\"a\":2}\n{\"a\":3}\n", options), HasSubstr("more than 2 lines"));
  const TempFile fits("{\"a\":1}\n{\"a\":2}\n");
  EXPECT_TRUE(LoadTasks(fits.path(), options).ok());
  options.max_lines = 0;
  EXPECT_FALSE(LoadTasks(fits.path(), options).ok());
}

TEST(TasksTest, IdsDomainsAndPayloads) {
  const TempFile file(
      "{\"task_id\": \"a\", \"domain\": \"math\", \"x\": [1]}\n{\"task_id\": 7}\n{\"question\":  \"q\"}\n");
  const auto tasks = LoadTasks(file.path());
  ASSERT_TRUE(tasks.ok()) << tasks.status();
  ASSERT_EQ(tasks->size(), 3u);
  EXPECT_EQ((*tasks)[0].task_id(), "a");
  EXPECT_EQ((*tasks)[0].domain(), "math");
  EXPECT_EQ((*tasks)[0].payload_json(), "{\"task_id\": \"a\", \"domain\": \"math\", \"x\": [1]}");
  EXPECT_EQ((*tasks)[1].task_id(), "7");
  EXPECT_EQ((*tasks)[1].domain(), "");
  EXPECT_EQ((*tasks)[2].task_id().size(), 32u);
  EXPECT_EQ((*tasks)[2].payload_json(), "{\"question\":  \"q\"}");
}

TEST(TasksTest, ErrorsNameTheLine) {
  EXPECT_THAT(TaskError("{\"task_id\": \"a\"}\n\n{\"task_id\": \"a\"}\n"),
              HasSubstr(":3: the task id 'a' is already used by line 1"));
  EXPECT_THAT(TaskError("{\"q\": 1}\n{\"q\": 1}\n"), HasSubstr(":2: the task id"));
  EXPECT_THAT(TaskError("{\"q\": 1}\n{\"q\": \n"), HasSubstr(":2: malformed JSON"));
  EXPECT_THAT(TaskError("[1]\n"), HasSubstr(":1: the line must be a JSON object"));
  EXPECT_THAT(TaskError("{\"task_id\": \"\"}"), HasSubstr(":1: 'task_id'"));
  EXPECT_THAT(TaskError("{\"task_id\": 1.5}"), HasSubstr(":1: 'task_id'"));
  EXPECT_THAT(TaskError("{\"domain\": 1}"), HasSubstr(":1: 'domain'"));
  EXPECT_THAT(TaskError(" \n\n"), HasSubstr("no task"));
}

TEST(ConversationsTest, AConversationIsReadOrItsLineIsNamed) {
  const TempFile file(
      "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}, {\"role\": \"assistant\", \"content\": \"yo\"}]}\n"
      "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], \"tools\": [{\"type\": \"function\", \"function\": "
      "{\"name\": \"f\"}}]}\n");
  const auto conversations = LoadConversations(file.path());
  ASSERT_TRUE(conversations.ok()) << conversations.status();
  EXPECT_EQ((*conversations)[0].conversation.messages[1].content, "yo");
  EXPECT_EQ((*conversations)[1].conversation.tools.size(), 1u);
  EXPECT_EQ((*conversations)[1].place, file.path() + ":2");

  const TempFile bad(
      "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]}\n{\"messages\": [{\"role\": \"x\"}]}\n");
  const auto error = LoadConversations(bad.path()).status();
  EXPECT_EQ(error.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(error.message()), HasSubstr(bad.path() + ":2: messages[0]"));
  for (const char* weight : {"0.5", "2", "true", "\"1\""}) {
    const TempFile odd(
        absl::StrCat("{\"messages\": [{\"role\": \"assistant\", \"content\": \"\", \"weight\": ", weight, "}]}\n"));
    EXPECT_THAT(std::string(LoadConversations(odd.path()).status().message()),
                HasSubstr(absl::StrCat(odd.path(), ":1: messages[0]: 'weight' is ", weight)));
  }
  const TempFile empty("\n");
  EXPECT_THAT(std::string(LoadConversations(empty.path()).status().message()), HasSubstr("no conversations"));
}

TEST(TasksTest, RandomBytesAreReadOrRejected) {
  std::mt19937 rng(2);
  for (int trial = 0; trial < 300; ++trial) {
    std::string text = "{\"task_id\": \"a\"}\n{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]}\n";
    for (int k = rng() % 4; k >= 0; --k) text[rng() % text.size()] = static_cast<char>(rng());
    const TempFile file(text);
    (void)LoadTasks(file.path()).ok();
    (void)LoadConversations(file.path()).ok();
  }
}

TEST(Tasks, OfSeveralFilesFollowEachOtherAndShareNoId) {
  const TempFile one("{\"task_id\": \"a\"}\n{\"x\": 1}\n"), two("\n{\"task_id\": \"b\", \"domain\": \"d\"}\n");
  const auto tasks = LoadTasks(std::vector<std::string>{one.path(), two.path()});
  ASSERT_TRUE(tasks.ok()) << tasks.status();
  ASSERT_EQ(tasks->size(), 3u);
  EXPECT_EQ((*tasks)[0].task_id(), "a");
  EXPECT_EQ((*tasks)[2].task_id(), "b");
  EXPECT_EQ((*tasks)[2].domain(), "d");
  const auto error = [](const std::vector<std::string>& paths) {
    return std::string(LoadTasks(paths).status().message());
  };
  EXPECT_EQ(error({one.path(), two.path(), two.path()}),
            absl::StrCat(two.path(), ":2: the task id 'b' is already used by ", two.path(), ":2"));
  const TempFile equal_line("{\"x\": 1}\n"), empty("\n"), bad("{\"task_id\": \"z\"}\n{\n");
  EXPECT_THAT(error({one.path(), equal_line.path()}), HasSubstr(absl::StrCat("is already used by ", one.path(), ":2")));
  EXPECT_EQ(error({one.path(), empty.path()}), empty.path() + ": the file has no tasks");
  EXPECT_THAT(error({one.path(), bad.path()}), testing::StartsWith(bad.path() + ":2: "));
}

}  // namespace
}  // namespace ingot::dataset
