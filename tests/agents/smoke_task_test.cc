// The committed smoke task is as hard as its documentation says: a constant, a copy or an imitation of the supervised
// conversations does not solve it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "base/json.h"
#include "sandbox/process.h"
#include "sandbox/template.h"
#include "sandbox/test_sandbox.h"
#include "test_paths.h"

namespace ingot::agents {
namespace {

namespace fs = std::filesystem;
using base::json::value;

const std::string kFolder = INGOT_SOURCE_DIR "/examples/smoke";

std::string Text(const value& record, const std::string& path) {
  const std::string text = base::PrintJson(record);
  const auto found = base::JsonText(text).At(path);
  EXPECT_TRUE(found.has_value()) << path << " in " << text;
  return found.has_value() ? sandbox::AsText(*found) : "";
}

std::vector<value> Load(const std::string& name) {
  std::vector<value> records;
  std::ifstream file(kFolder + "/" + name + ".jsonl");
  for (std::string line; std::getline(file, line);) {
    auto record = base::ParseJson(line);
    EXPECT_TRUE(record.ok()) << record.status();
    if (record.ok()) records.push_back(std::move(*record));
  }
  EXPECT_FALSE(records.empty()) << name;
  return records;
}

struct Sample {
  std::string key, code, answer;
};

std::vector<Sample> Tasks(const std::string& name) {
  std::vector<Sample> samples;
  for (const value& task : Load(name)) {
    const std::string prompt = Text(task, "prompt");
    EXPECT_TRUE(prompt.starts_with("item ")) << prompt;
    const std::string key = prompt.substr(5);
    samples.push_back({key, Text(task, "tables.lookup." + key), Text(task, "answer")});
  }
  return samples;
}

std::vector<Sample> Conversations() {
  std::vector<Sample> samples;
  for (const value& conversation : Load("sft")) {
    const std::string key = Text(conversation, "messages.0.content").substr(5);
    EXPECT_EQ(Text(conversation, "messages.1.tool_calls.0.function.name"), "lookup");
    EXPECT_EQ(Text(conversation, "messages.1.tool_calls.0.function.arguments"), "{\"key\": \"" + key + "\"}");
    samples.push_back({key, Text(conversation, "messages.2.content"), Text(conversation, "messages.3.content")});
  }
  return samples;
}

std::set<std::string> Keys(const std::vector<Sample>& samples) {
  std::set<std::string> keys;
  for (const Sample& sample : samples) keys.insert(sample.key);
  return keys;
}

// The best that an answer depending on `feature` alone can score on the tasks.
double BestFrom(const std::vector<Sample>& samples, const std::function<std::string(const Sample&)>& feature) {
  std::map<std::string, std::map<std::string, int>> counts;
  for (const Sample& sample : samples) ++counts[feature(sample)][sample.answer];
  int right = 0;
  for (const auto& [seen, answers] : counts) {
    int best = 0;
    for (const auto& [answer, count] : answers) best = std::max(best, count);
    right += best;
  }
  return static_cast<double>(right) / samples.size();
}

TEST(SmokeTaskTest, NoConstantAndNoCopyScoresAboveAFifth) {
  for (const char* name : {"train", "eval"}) {
    const std::vector<Sample> tasks = Tasks(name);
    EXPECT_LE(BestFrom(tasks, [](const Sample&) { return std::string(); }), 0.2) << name;
    for (const Sample& task : tasks) {
      EXPECT_NE(task.answer, task.code);
      EXPECT_EQ(task.key.find(task.answer), std::string::npos) << "the answer could be copied from the key";
    }
  }
}

TEST(SmokeTaskTest, TheAnswerIsOneFunctionOfTheToolsResult) {
  std::map<std::string, std::string> f;
  for (const char* name : {"train", "eval"}) {
    for (const Sample& task : Tasks(name)) {
      EXPECT_EQ(f.emplace(task.code, task.answer).first->second, task.answer) << name;
    }
  }
  std::set<std::string> codes, answers;
  for (const auto& [code, answer] : f) {
    codes.insert(code);
    answers.insert(answer);
  }
  EXPECT_EQ(codes, answers);
  EXPECT_GE(f.size(), 8u);
}

TEST(SmokeTaskTest, TheKeyAloneSaysLittleInHeldOutTasks) {
  // The best score of an answer that depends on one character of the key, chosen in hindsight.
  for (const size_t position : {0u, 1u}) {
    EXPECT_LE(BestFrom(Tasks("train"), [&](const Sample& s) { return s.key.substr(position, 1); }), 0.4);
  }
}

TEST(SmokeTaskTest, KeysOfTheThreeFilesAreDisjointAndTasksDiffer) {
  const auto train = Keys(Tasks("train")), eval = Keys(Tasks("eval")), sft = Keys(Conversations());
  for (const std::string& key : train) {
    EXPECT_FALSE(eval.contains(key)) << key;
    EXPECT_FALSE(sft.contains(key)) << key;
  }
  for (const std::string& key : eval) EXPECT_FALSE(sft.contains(key)) << key;
  for (const char* name : {"train", "eval"}) {
    std::set<std::pair<std::string, std::string>> seen;
    for (const Sample& task : Tasks(name)) EXPECT_TRUE(seen.emplace(task.key, task.code).second) << task.key;
  }
}

TEST(SmokeTaskTest, ImitatingTheConversationsIsRightOneTimeInFour) {
  std::map<std::string, std::string> rule;
  for (const Sample& task : Tasks("train")) rule[task.code] = task.answer;
  std::map<std::string, std::map<std::string, int>> counts;
  std::map<std::string, int> answered;
  const std::vector<Sample> conversations = Conversations();
  for (const Sample& sample : conversations) {
    ++counts[sample.code][sample.answer];
    ++answered[sample.answer];
  }
  ASSERT_EQ(counts.size(), rule.size());
  const int per_code = static_cast<int>(conversations.size() / rule.size());
  for (const auto& [code, answers] : counts) {
    EXPECT_EQ(answers.size(), 2u) << code;  // so that the answer shown most often is wrong
    EXPECT_EQ(answers.at(rule[code]), per_code / 4) << code;
    EXPECT_FALSE(answers.contains(code)) << code;
  }
  for (const auto& [answer, count] : answered) EXPECT_EQ(count, per_code) << answer;
}

TEST(SmokeTaskTest, TheGeneratorMakesTheCommittedFiles) {
  char folder[] = "/tmp/ingot-smoke-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const sandbox::Command command{.argv = {"python3", kFolder + "/generate.py", "--out", folder},
                                 .env = sandbox::InheritedEnvironment({"PATH", "HOME"}),
                                 .working_dir = "",
                                 .stdin_text = ""};
  const auto outcome = sandbox::RunInSandbox(command);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_TRUE(outcome->ok()) << outcome->err;
  for (const char* name : {"/train.jsonl", "/eval.jsonl", "/sft.jsonl"}) {
    std::ifstream made(std::string(folder) + name), committed(kFolder + name);
    const std::string a(std::istreambuf_iterator<char>(made), {}), b(std::istreambuf_iterator<char>(committed), {});
    EXPECT_FALSE(a.empty());
    EXPECT_TRUE(a == b) << name << " differs from what generate.py makes";
  }
  fs::remove_all(folder);
}

}  // namespace
}  // namespace ingot::agents
