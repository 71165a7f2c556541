#include "reward/verifiers/harbor.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <utility>

#include "absl/strings/ascii.h"
#include "base/json.h"
#include "reward/verifiers/answer_verifier.h"
#include "tree/reward_bounds.h"
#include "tree/signal_bounds.h"

namespace ingot::reward {
namespace {

namespace fs = std::filesystem;
using base::json::value;
using sandbox::Template;

constexpr int64_t kLargestTests = 64 << 20;  // bytes of a task's tests
constexpr size_t kMostFiles = 2000;
constexpr int64_t kLargestReport = 1 << 20;

bool IsText(std::string_view bytes) { return bytes.substr(0, 8192).find('\0') == std::string_view::npos; }

// The files of the folder, by relative path.
absl::StatusOr<std::map<std::string, std::string>> ReadTests(const std::string& folder) {
  std::map<std::string, std::string> files;
  int64_t bytes = 0;
  std::error_code error;
  fs::recursive_directory_iterator at(folder, error), end;
  for (; !error && at != end; at.increment(error)) {
    if (!at->is_regular_file()) continue;
    std::ifstream file(at->path(), std::ios::binary);
    std::string content((std::istreambuf_iterator<char>(file)), {});
    if (file.bad()) return absl::UnavailableError(absl::StrCat("cannot read ", at->path().string()));
    bytes += static_cast<int64_t>(content.size());
    files[fs::relative(at->path(), folder).generic_string()] = std::move(content);
    if (bytes > kLargestTests || files.size() > kMostFiles) {
      return absl::ResourceExhaustedError(absl::StrCat("verifier.harbor.tests: ", folder, " has more than ", kMostFiles,
                                                       " files or ", kLargestTests, " bytes"));
    }
  }
  if (error) return absl::NotFoundError(absl::StrCat("verifier.harbor.tests: ", folder, ": ", error.message()));
  if (!files.contains("test.sh")) {
    return absl::NotFoundError(absl::StrCat("verifier.harbor.tests: ", folder, " holds no test.sh"));
  }
  return files;
}

absl::StatusOr<double> NumberOf(const value& json, const std::string& what) {
  const double number = json.is_number() ? json.to_number<double>() : json.is_bool() ? json.get_bool() : 0;
  if (!json.is_number() && !json.is_bool()) return absl::InternalError(absl::StrCat(what, " is no number"));
  if (const std::string fault = tree::RewardFault(number); !fault.empty()) {
    return absl::InternalError(absl::StrCat(what, " is no use as a reward: it ", fault));
  }
  return number;
}

absl::StatusOr<Verdict> ParseText(const std::string& text) {
  const auto json = base::ParseJson(Trimmed(text));
  if (!json.ok()) return absl::InternalError(absl::StrCat("reward.txt holds ", Quoted(text), ", which is no number"));
  INGOT_ASSIGN_OR_RETURN(const double reward, NumberOf(*json, "reward.txt"));
  return Verdict{.reward = reward, .signals = {}, .facts = {}, .detail = "scored by test.sh"};
}

absl::StatusOr<Verdict> ParseObject(const std::string& text) {
  const auto json = base::ParseJson(Trimmed(text));
  if (!json.ok()) return base::Annotate(absl::InternalError(json.status().message()), "reward.json");
  Verdict verdict{.reward = 0, .signals = {}, .facts = {}, .detail = "scored by test.sh"};
  if (!json->is_object()) {
    INGOT_ASSIGN_OR_RETURN(verdict.reward, NumberOf(*json, "reward.json"));
    return verdict;
  }
  const auto& object = json->get_object();
  const value* reward = base::Find(*json, "reward");
  if (reward == nullptr && object.size() == 1) reward = &object.begin()->value();
  if (reward == nullptr) return absl::InternalError("reward.json has several numbers, and none is called 'reward'");
  INGOT_ASSIGN_OR_RETURN(verdict.reward, NumberOf(*reward, "reward.json"));
  for (const auto& [name, part] : object) {
    INGOT_ASSIGN_OR_RETURN(const double number, NumberOf(part, "reward.json: " + std::string(name)));
    if (&part != reward && tree::IsSignalName(name) && verdict.signals.size() < tree::kMaxReportedSignals) {
      verdict.signals[std::string(name)] = number;
    }
  }
  return verdict;
}

class HarborVerifier final : public Verifier {
 public:
  HarborVerifier(VerifierOptions options, Template tests) : options_(std::move(options)), tests_(std::move(tests)) {
    limits_.wall_time = std::chrono::nanoseconds(static_cast<int64_t>(options_.timeout_s * 1e9));
    limits_.output_bytes = 16 << 20;
  }

  absl::StatusOr<Verdict> Verify(const VerifierInput& input) const override {
    if (input.room == nullptr) return absl::InternalError("test.sh has no room to run in");
    INGOT_ASSIGN_OR_RETURN(const std::string source, FolderOf(input));
    INGOT_ASSIGN_OR_RETURN(const auto files, ReadTests(source));
    std::random_device device;
    // A name that no agent can have prepared.
    const std::string name = absl::StrCat(".verifier-", absl::Hex(device()), absl::Hex(device()), absl::Hex(device()));
    const std::string folder = absl::StrCat(input.room->work(), "/", name);
    for (const auto& [path, content] : files) {
      const std::string text = IsText(content) ? WithHarborPaths(content, folder) : content;
      INGOT_RETURN_IF_ERROR(input.room->WriteFile(absl::StrCat(name, "/tests/", path), text));
    }
    const std::string logs = name + "/logs/verifier/";
    INGOT_RETURN_IF_ERROR(input.room->WriteFile(logs + "started", ""));
    sandbox::Command command{.argv = {"sh", "-c", kRunHarborScript, "sh", folder + "/tests/test.sh"},
                             .env = EnvironmentOf(input),
                             .working_dir = "",
                             .stdin_text = ""};
    command.working_dir = input.workdir;
    const auto outcome = input.room->Run(command, limits_, input.cancel);
    if (!outcome.ok()) return base::Annotate(outcome.status(), "test.sh did not run");
    if (outcome->ending == sandbox::Ending::kCancelled) return absl::CancelledError("test.sh was cancelled");
    if (outcome->ending == sandbox::Ending::kTimedOut && options_.timeout_is_zero) {
      return Judged(false, "test.sh ran past its time limit");
    }
    const std::string described = sandbox::Describe(*outcome, limits_);
    if (outcome->ending != sandbox::Ending::kExited) return absl::InternalError(absl::StrCat("test.sh ", described));
    const auto json = input.room->ReadFile(logs + "reward.json", kLargestReport);
    if (json.ok()) return ParseObject(*json);
    const auto text = input.room->ReadFile(logs + "reward.txt", kLargestReport);
    if (text.ok()) return ParseText(*text);
    return absl::InternalError(absl::StrCat("test.sh ", described, " and left neither /logs/verifier/reward.json nor ",
                                            "reward.txt; its stderr: ", Quoted(Trimmed(outcome->err))));
  }

  absl::StatusOr<sandbox::Command> Rehearse(const VerifierInput& input) const override {
    INGOT_ASSIGN_OR_RETURN(const std::string folder, FolderOf(input));
    std::error_code none;
    if (!fs::exists(folder + "/test.sh", none)) {
      return absl::NotFoundError(absl::StrCat("verifier.harbor.tests: ", folder, " holds no test.sh"));
    }
    return sandbox::Command();
  }

 private:
  absl::StatusOr<std::string> FolderOf(const VerifierInput& input) const {
    const auto rendered = tests_.Render(VariablesOf(input));
    if (!rendered.ok()) return base::Annotate(rendered.status(), "verifier.harbor.tests");
    return rendered->starts_with('/') ? *rendered : absl::StrCat(input.cwd, "/", *rendered);
  }

  const VerifierOptions options_;
  const Template tests_;
  sandbox::Limits limits_;
};

}  // namespace

std::string WithHarborPaths(std::string_view text, const std::string& folder) {
  const auto is_name = [](char c) { return absl::ascii_isalnum(c) || c == '_' || c == '-' || c == '.' || c == '/'; };
  std::string replaced;
  for (size_t i = 0; i < text.size();) {
    size_t length = 0;
    if (text[i] == '/' && (i == 0 || !is_name(text[i - 1]))) {
      for (const std::string_view path : {"/tests", "/logs"}) {
        if (!text.substr(i).starts_with(path)) continue;
        const size_t after = i + path.size();
        if (after == text.size() || text[after] == '/' || !is_name(text[after])) length = path.size();
      }
    }
    if (length > 0) replaced += folder;
    replaced += text.substr(i, std::max<size_t>(length, 1));
    i += std::max<size_t>(length, 1);
  }
  return replaced;
}

absl::StatusOr<std::unique_ptr<const Verifier>> MakeHarbor(const VerifierOptions& options) {
  auto tests = Template::Parse(options.harbor.tests, VerifierVariables());
  if (!tests.ok()) return base::Annotate(tests.status(), "verifier.harbor.tests");
  return std::make_unique<HarborVerifier>(options, std::move(*tests));
}

}  // namespace ingot::reward
