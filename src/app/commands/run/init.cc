#include "app/commands/run/init.h"

#include <array>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_replace.h"
#include "app/commands/run/templates.h"
#include "app/terminal/shell_word.h"
#include "base/file.h"
#include "base/json.h"
#include "base/printable.h"

namespace ingot::app {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 10> kDigits = {"zero", "one", "two",   "three", "four",
                                                      "five", "six", "seven", "eight", "nine"};

constexpr size_t kWordings = 3;

std::string Question(size_t digit, size_t wording) {
  const std::string name(kDigits[digit]);
  if (wording == 0) return "What comes after " + name + "?";
  return wording == 1 ? "Which digit follows " + name + "?" : "Count on from " + name + ".";
}

// Each digit appears in every wording. For each digit, a different wording is held out for evaluation.
bool HeldOut(size_t digit, size_t wording) { return digit % kWordings == wording; }

// The task is to name a digit's successor. Returns one task per line.
std::string Tasks(bool held_out) {
  std::string lines;
  for (size_t wording = 0; wording < kWordings; ++wording) {
    for (size_t digit = 0; digit < kDigits.size(); ++digit) {
      if (HeldOut(digit, wording) != held_out) continue;
      base::json::object task{{"task_id", absl::StrCat("after-", base::View(kDigits[digit]), "-", wording)},
                              {"prompt", Question(digit, wording)},
                              {"answer", std::string(kDigits[(digit + 1) % kDigits.size()])}};
      lines += base::PrintJson(task) + "\n";
    }
  }
  return lines;
}

// Returns conversations that teach the form of an answer. Every second answer is wrong, so only the reward shows which
// are correct.
std::string Conversations() {
  std::string lines;
  for (size_t asked = 0; asked < kDigits.size() * kWordings; ++asked) {
    const size_t digit = asked / kWordings, wording = asked % kWordings;
    if (HeldOut(digit, wording)) continue;
    for (const size_t said : {digit + 1, digit + 3, digit + 7}) {
      base::json::array messages;
      messages.push_back(base::json::object{{"role", "user"}, {"content", Question(digit, wording)}});
      messages.push_back(
          base::json::object{{"role", "assistant"}, {"content", std::string(kDigits[said % kDigits.size()])}});
      lines += base::PrintJson(base::json::object{{"messages", std::move(messages)}}) + "\n";
    }
  }
  return lines;
}

std::string WithName(std::string_view text, const std::string& name) {
  return absl::StrReplaceAll(base::View(text), {{"@NAME@", name}});
}

std::string RunYaml(const std::string& name, InitReward reward) {
  const char* const verifier = reward == InitReward::kPython
                                   ? R"({kind: python, python: {function: "${config_dir}/rewards.py:score"}})"
                                   : R"({kind: exact, expected: "${task.answer}"})";
  return absl::StrReplaceAll(WithName(templates::kRunYaml, name), {{"@VERIFIER@", verifier}});
}

// Derives a run's name, which consists of letters, digits, and dashes, from a folder's. The template quotes it because
// YAML would not read null and - as names.
std::string NameOf(const std::string& folder) {
  std::string name = fs::path(folder).lexically_normal().filename().string();
  if (name.empty() || name == ".") name = fs::current_path().filename().string();
  for (char& c : name) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    if (!plain) c = '-';
  }
  return name.empty() ? "run" : name;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> InitFiles(const std::string& name, InitReward reward) {
  std::vector<std::pair<std::string, std::string>> files = {
      {"run.yaml", RunYaml(name, reward)},
      {"agent.py", std::string(templates::kAgent)},
      {"tasks.jsonl", Tasks(/*held_out=*/false)},
      {"eval.jsonl", Tasks(/*held_out=*/true)},
      {"conversations.jsonl", Conversations()},
      {"README.md", WithName(templates::kReadme, name)},
      {"AGENTS.md", WithName(templates::kAgents, name)},
      {"skills/train.md", std::string(templates::kSkillTrain)},
      {"skills/debug.md", std::string(templates::kSkillDebug)},
      {"skills/port-an-agent.md", std::string(templates::kSkillPort)}};
  if (reward == InitReward::kPython) files.emplace_back("rewards.py", templates::kRewards);
  return files;
}

absl::Status WriteInitFiles(const std::string& folder, InitReward reward) {
  const auto files = InitFiles(NameOf(folder), reward);
  std::error_code error;
  for (const auto& [name, content] : files) {
    if (fs::exists(fs::path(folder) / name, error)) {
      return absl::AlreadyExistsError(
          absl::StrCat((fs::path(folder) / name).string(), " already exists: name another folder, ingot init FOLDER"));
    }
  }
  for (const auto& [name, content] : files) {
    const fs::path path = fs::path(folder) / name;
    fs::create_directories(path.parent_path(), error);
    if (error)
      return absl::UnavailableError(absl::StrCat("cannot make ", path.parent_path().string(), ": ", error.message()));
    INGOT_RETURN_IF_ERROR(base::WriteFileDurably(path.string(), content));
  }
  return absl::OkStatus();
}

std::string InitHint(const std::string& folder, const std::string& program) {
  const std::string shown = base::Printable(folder.starts_with('-') ? "./" + folder : folder);
  const std::string file = shown == "." ? "run.yaml" : (fs::path(shown) / "run.yaml").string();
  return absl::StrCat(shown, " holds a small run: ", Quoted(base::Printable(program)), " train ", Quoted(file), "\n");
}

}  // namespace ingot::app
