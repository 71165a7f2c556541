#include "base/run_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "base/hostile_text.h"
#include "base/printable.h"
#include "base/retry.h"

namespace ingot::base {
namespace {

using ::testing::HasSubstr;

class RunLogTest : public ::testing::Test {
 protected:
  RunLogTest() {
    std::string name = ::testing::TempDir() + "/run_log_XXXXXX";
    directory_ = mkdtemp(name.data());
  }
  ~RunLogTest() override { std::filesystem::remove_all(directory_); }

  RunLogOptions Options(int64_t resume_step = -1) { return {.directory = directory_, .resume_step = resume_step}; }
  std::unique_ptr<RunLog> MustOpen(const RunLogOptions& options) {
    auto log = RunLog::Open(options, &metrics_, clock_);
    EXPECT_TRUE(log.ok()) << log.status();
    return *std::move(log);
  }
  std::vector<std::string> Lines() {
    std::ifstream in(directory_ + "/metrics.jsonl");
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }
  std::vector<int64_t> Steps() {
    std::vector<int64_t> steps;
    for (const std::string& line : Lines()) steps.push_back(ParseJson(line)->at("step").as_int64());
    return steps;
  }
  void Append(const std::string& text) { std::ofstream(directory_ + "/metrics.jsonl", std::ios::app) << text; }

  std::string directory_;
  ManualClock clock_{std::chrono::seconds(1'700'000'000)};
  Metrics metrics_;
};

// Reads an event file by its format's description: framing, checksums, then the scalars of each event.
struct ReadEvent {
  int64_t step = 0;
  std::string raw;
};

std::vector<ReadEvent> ReadEvents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream buffer;
  buffer << in.rdbuf();
  const std::string bytes = std::move(buffer).str();
  const auto masked = [](std::string_view data) {
    const uint32_t crc = Crc32c(data);
    return static_cast<uint32_t>(((crc >> 15) | (crc << 17)) + 0xA282EAD8u);
  };
  std::vector<ReadEvent> events;
  for (size_t at = 0; at < bytes.size();) {
    uint64_t length = 0;
    uint32_t crc = 0;
    std::memcpy(&length, bytes.data() + at, 8);
    std::memcpy(&crc, bytes.data() + at + 8, 4);
    EXPECT_EQ(crc, masked(std::string_view(bytes).substr(at, 8)));
    const std::string data = bytes.substr(at + 12, length);
    std::memcpy(&crc, bytes.data() + at + 12 + length, 4);
    EXPECT_EQ(crc, masked(data));
    EXPECT_EQ(data[0], 0x09);  // wall_time, 8 bytes
    EXPECT_EQ(data[9], 0x10);  // step, one byte below 128
    events.push_back({data[10], data.substr(11)});
    at += 16 + length;
  }
  return events;
}

TEST_F(RunLogTest, WritesOneObjectPerStepWithNullForNaN) {
  auto log = MustOpen(Options());
  ASSERT_TRUE(log->Write(3, {{"reward/mean", 0.5},
                             {"nan", std::nan("")},
                             {"inf", std::numeric_limits<double>::infinity()},
                             {"note", "two\nlines"},
                             {"staleness", json::array{4, 2, 0}}})
                  .ok());
  ASSERT_EQ(Lines().size(), 1u);
  EXPECT_EQ(
      Lines()[0],
      R"({"step":3,"time":1700000000.0,"reward/mean":0.5,"nan":null,"inf":null,"note":"two\nlines","staleness":[4,2,0]})");
}

TEST_F(RunLogTest, FieldsNamedStepOrTimeAreLeftOut) {
  auto log = MustOpen(Options());
  ASSERT_TRUE(log->Write(3, {{"step", 9}, {"time", "noon"}, {"x", 1}}).ok());
  EXPECT_EQ(Lines()[0], R"({"step":3,"time":1700000000.0,"x":1})");
}

TEST_F(RunLogTest, MirrorsTheLastStepAsGauges) {
  auto log = MustOpen(Options());
  ASSERT_TRUE(log->Write(1, {{"reward/mean", 0.25}, {"domain", json::object{{"math", 2}}}}).ok());
  ASSERT_TRUE(log->Write(2, {{"reward/mean", 0.75}}).ok());
  const std::string text = metrics_.RenderText();
  EXPECT_THAT(text, HasSubstr("\ningot_reward_mean 0.75"));
  EXPECT_THAT(text, HasSubstr("\ningot_domain_math 2"));
  EXPECT_THAT(text, HasSubstr("\ningot_step 2"));
}

TEST_F(RunLogTest, NamesOfAgentsAndTasksAreLabelsOfTheGauges) {
  auto log = MustOpen(Options());
  ASSERT_TRUE(log->Write(1, {{"reward/mean", 0.25},
                             {"reward/batch_mean@domain:math/2", 0.5},
                             {"signal/lint", 4},
                             {"signal/lint@scaffold:my codex", 3},
                             {"agent/timeout", 0.125}})
                  .ok());
  const std::string text = metrics_.RenderText();
  for (const char* line : {"ingot_reward_mean 0.25\n", "ingot_reward_batch_mean{domain=\"math/2\"} 0.5\n",
                           "ingot_signal{name=\"lint\"} 4\n", "ingot_signal{name=\"lint\",scaffold=\"my codex\"} 3\n",
                           "ingot_agent_timeout 0.125\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST_F(RunLogTest, HostileNamesReachNoReaderOfTheRecord) {
  auto log = MustOpen(Options());
  json::object fields;
  for (const std::string& name : HostileTexts()) {
    fields["signal/" + name] = 1;
    fields["reward/batch_mean@domain:" + name] = 2;
    fields["outer"] = json::object{{name, 3}};
  }
  ASSERT_TRUE(log->Write(1, fields).ok());
  ASSERT_EQ(Lines().size(), 1u);
  EXPECT_TRUE(IsPrintable(Lines()[0]));
  const auto line = ParseJson(Lines()[0]);
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->at("signal/bad\\nname").to_number<int>(), 1);
  for (const auto& field : line->get_object()) {
    EXPECT_TRUE(IsPrintable(std::string_view(field.key())));
    EXPECT_LE(field.key().size(), 1024u);
  }
  const std::string path = std::filesystem::directory_iterator(directory_ + "/tensorboard")->path();
  const std::string event = ReadEvents(path).back().raw;
  EXPECT_EQ(event.find("\x1b["), std::string::npos);
  EXPECT_EQ(event.find("bad\n"), std::string::npos);
  EXPECT_THAT(event, HasSubstr("signal/bad\\nname"));
  const std::string gauges = metrics_.RenderText();
  EXPECT_THAT(gauges, HasSubstr("ingot_signal{name=\"bad\\\\nname\"} 1\n"));
  EXPECT_EQ(gauges.find("forged 1\n"), std::string::npos);
}

TEST_F(RunLogTest, ALateLineOfAnOlderVersionKeepsTheStepGauge) {
  auto log = MustOpen(Options());
  ASSERT_TRUE(log->Write(7, {{"version", 8}}).ok());
  ASSERT_TRUE(log->Write(4, {{"version", 4}, {"eval/reward_mean", 0.5}}).ok());
  const std::string text = metrics_.RenderText();
  for (const char* line : {"ingot_step 7", "ingot_version 8", "ingot_eval_reward_mean 0.5"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST_F(RunLogTest, ResumeCutsRepeatedStepsAndBrokenLines) {
  {
    auto log = MustOpen(Options());
    for (int step = 0; step < 5; ++step) ASSERT_TRUE(log->Write(step, {{"x", step}}).ok());
  }
  // A run that was killed leaves half a line, and nothing is wrong with it.
  Append("{\"step\": 5, \"x\"");
  ::testing::internal::CaptureStdout();
  MustOpen(Options(4));
  const std::string killed = ::testing::internal::GetCapturedStdout();
  EXPECT_NE(killed.find("[info]"), std::string::npos) << killed;
  EXPECT_NE(killed.find("removed its last line, which was incomplete"), std::string::npos) << killed;
  EXPECT_EQ(killed.find("[warning]"), std::string::npos) << killed;
  EXPECT_EQ(killed.find("crash"), std::string::npos) << killed;
  Append("\n{\"step\": \n{\"step\": 5, \"x\"");  // an empty line, a broken one and half a line
  ::testing::internal::CaptureStdout();
  auto log = MustOpen(Options(3));
  const std::string broken = ::testing::internal::GetCapturedStdout();
  EXPECT_NE(broken.find("removed 2 line(s) that are not a JSON object with a step"), std::string::npos) << broken;
  EXPECT_EQ(Steps(), (std::vector<int64_t>{0, 1, 2}));
  ASSERT_TRUE(log->Write(3, {{"x", 3}}).ok());
  EXPECT_EQ(Steps(), (std::vector<int64_t>{0, 1, 2, 3}));
}

// As on a full disk: whoever resumes opens the log again until it can be written.
TEST_F(RunLogTest, AResumeThatCannotWriteLosesNothingAndMayBeRepeated) {
  Append("{\"step\":0}\n{\"step\":1}\n{\"step\":2}\n");
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  const rlimit tight{4, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
  const auto failed = RunLog::Open(Options(2), &metrics_, clock_);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, handler);
  EXPECT_TRUE(absl::IsUnavailable(failed.status())) << failed.status();
  EXPECT_EQ(Steps(), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_), {}), 1) << "no draft is left";
  MustOpen(Options(2));
  EXPECT_EQ(Steps(), (std::vector<int64_t>{0, 1}));
}

TEST_F(RunLogTest, ResumeTellsThatTheEarlierLinesAreGone) {
  const auto said_on_resume = [&](int64_t step) {
    ::testing::internal::CaptureStdout();
    MustOpen(Options(step));
    return ::testing::internal::GetCapturedStdout();
  };
  const std::string gone = "metrics.jsonl is gone: the record restarts at step 7";
  EXPECT_NE(said_on_resume(7).find(gone), std::string::npos);
  const std::string empty = "has no line of an earlier step: the record restarts at step 7";
  EXPECT_NE(said_on_resume(7).find(empty), std::string::npos) << "the file was made by the resume before";
  EXPECT_EQ(said_on_resume(0).find("record restarts"), std::string::npos) << "no step was taken before";
}

TEST_F(RunLogTest, ResumeKeepsLinesOfKeptVersions) {
  {
    auto log = MustOpen(Options());
    for (int step = 0; step < 3; ++step) ASSERT_TRUE(log->Write(step, {{"version", step + 1}, {"x", step}}).ok());
    ASSERT_TRUE(log->Write(3, {{"version", 3}, {"eval", 0.5}}).ok());
  }
  RunLogOptions options = Options(3);
  options.keep_version = 3;
  auto log = MustOpen(options);
  EXPECT_EQ(Steps(), (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_THAT(Lines().back(), HasSubstr("\"eval\":0.5"));

  options.resume_step = 2;
  options.keep_version = 2;
  log = MustOpen(options);
  EXPECT_EQ(Steps(), (std::vector<int64_t>{0, 1}));
}

TEST_F(RunLogTest, ANewRunRejectsAFolderThatHoldsAnother) {
  {
    ASSERT_TRUE(MustOpen(Options())->Write(0, {}).ok());
  }
  EXPECT_EQ(RunLog::Open(Options(), nullptr, clock_).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(RunLogTest, AFailedWriteLeavesNoHalfLine) {
  auto log = MustOpen(Options());
  ASSERT_TRUE(log->Write(0, {{"x", 1}}).ok());
  const auto whole = std::filesystem::file_size(log->path());
  // A file-size limit makes write() fall short, as a full disk does.
  const auto pid = fork();
  if (pid == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{whole + 10, whole + 10};
    setrlimit(RLIMIT_FSIZE, &limit);
    const bool rejected = !log->Write(1, {{"x", 2}}).ok();
    _exit(rejected && std::filesystem::file_size(log->path()) == whole ? 0 : 1);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(RunLogTest, WritesEventFilesThatCarryTheScalars) {
  auto log = MustOpen(Options());
  ASSERT_TRUE(log->Write(5, {{"a", 1.0}, {"text", "no"}}).ok());
  const std::string path = std::filesystem::directory_iterator(directory_ + "/tensorboard")->path();
  const std::vector<ReadEvent> events = ReadEvents(path);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].raw,
            "\x1a\x0d"
            "brain.Event:2");
  EXPECT_EQ(events[1].step, 5);
  // summary { value { tag: "a" simple_value: 1.0f } }
  EXPECT_EQ(events[1].raw, std::string("\x2a\x0a\x0a\x08\x0a\x01"
                                       "a\x15\x00\x00\x80\x3f",
                                       12));
}

TEST_F(RunLogTest, AResumedEventFileStartsASessionAtItsFirstStep) {
  MustOpen(Options(4));
  const std::string path = std::filesystem::directory_iterator(directory_ + "/tensorboard")->path();
  const std::vector<ReadEvent> events = ReadEvents(path);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[1].step, 4);
  EXPECT_EQ(events[1].raw, "\x3a\x02\x08\x01");  // session_log { status: START }
}

TEST_F(RunLogTest, AResumedEventFileRepeatsTheKeptLinesPastItsFirstStep) {
  Append("{\"step\": 4, \"time\": 1, \"version\": 4}\n");
  RunLogOptions options = Options(4);
  options.keep_version = 4;
  MustOpen(options);
  const std::string path = std::filesystem::directory_iterator(directory_ + "/tensorboard")->path();
  const std::vector<ReadEvent> events = ReadEvents(path);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[2].step, 4);
  EXPECT_THAT(events[2].raw, HasSubstr("version"));
}

TEST(Crc32cTest, AgreesWithItsSpecification) {
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8A9136AAu);  // RFC 3720, B.4
}

TEST(RetryTest, TheHintTravelsWithTheStatus) {
  const absl::Status status = WithRetryAfter(absl::ResourceExhaustedError("full"), 250);
  EXPECT_EQ(RetryAfterMs(Annotate(status, "admission")), 250);
  EXPECT_EQ(RetryAfterMs(absl::ResourceExhaustedError("full")), std::nullopt);
}

TEST_F(RunLogTest, TensorBoardTellsABoundedNumberOfNamesApart) {
  RunLogOptions options = Options();
  options.max_labels = 3;
  json::object line;
  for (int i = 0; i < 5; ++i) line[absl::StrCat("signal/s", i)] = i;
  ASSERT_TRUE(MustOpen(options)->Write(0, line).ok());
  EXPECT_THAT(metrics_.RenderText(), HasSubstr("ingot_tensorboard_tags_other_total 2"));
  std::string events;
  for (const auto& file : std::filesystem::directory_iterator(directory_ + "/tensorboard")) {
    std::ostringstream text;
    text << std::ifstream(file.path(), std::ios::binary).rdbuf();
    events += text.str();
  }
  EXPECT_THAT(events, HasSubstr("signal/s2"));
  EXPECT_THAT(events, HasSubstr("signal/other"));
  EXPECT_EQ(events.find("signal/s3"), std::string::npos);
  EXPECT_THAT(Lines().at(0), HasSubstr("signal/s4")) << "the record itself has all";
}

}  // namespace
}  // namespace ingot::base
