#include "reward/verifiers/harbor.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/json.h"
#include "base/open_file.h"
#include "reward/harbor_task.h"
#include "reward/number.h"
#include "reward/verifiers/answer_verifier.h"
#include "tree/reward_bounds.h"
#include "tree/signal_bounds.h"

namespace ingot::reward {
namespace {

namespace fs = std::filesystem;
using base::json::value;
using sandbox::Template;

constexpr int64_t kLargestReport = 1 << 20;
constexpr char kTests[] = "tests", kLogs[] = "logs";
constexpr char kNoReward[] = "no_reward", kTimedOut[] = "tests_timed_out";  // signals: 1 = it happened, 0 = it did not

// Variables with paths from which loaders, shells, and interpreters implicitly load code.
constexpr char kCodePaths[] =
    "BASH_ENV BUNDLE_GEMFILE CLASSPATH ENV GCONV_PATH GEM_HOME GEM_PATH LD_AUDIT LD_LIBRARY_PATH LD_PRELOAD LUA_CPATH "
    "LUA_PATH NODE_PATH PERL5LIB PERLLIB PHPRC PHP_INI_SCAN_DIR PYTHONHOME PYTHONPATH PYTHONPYCACHEPREFIX "
    "PYTHONSTARTUP PYTHONUSERBASE RUBYLIB R_LIBS R_LIBS_USER R_PROFILE R_PROFILE_USER ZDOTDIR";
// Variables with options that can refer to such code in too many ways to detect.
constexpr char kCodeOptions[] =
    "JAVA_TOOL_OPTIONS JDK_JAVA_OPTIONS NODE_OPTIONS PERL5DB PERL5OPT PYTEST_ADDOPTS PYTEST_PLUGINS RUBYOPT "
    "_JAVA_OPTIONS";

// Removes the directories where an agent may have put programs, because the tests must not run them. The first of
// `separators` found in `path` joins the remaining directories.
std::string PathOutside(const std::string& path, const std::string& folder, const std::string& separators) {
  const auto normal = [](std::string_view text) { return (fs::path(text) / "").lexically_normal().string(); };
  std::vector<std::string> kept;
  const std::vector<std::string> places = absl::StrSplit(path, absl::ByAnyChar(separators));
  for (const std::string& each : places) {
    const bool is_outside = folder == "/" || !normal(each).starts_with(normal(folder));
    if (each.starts_with('/') && is_outside) kept.push_back(each);
  }
  const size_t joint = path.find_first_of(separators);
  return absl::StrJoin(kept, joint == std::string::npos ? ":" : path.substr(joint, 1));
}

// Drops environment values that would make the tests' programs load code from `folder`.
void DropCodeIn(const std::string& folder, std::map<std::string, std::string>& env) {
  for (const auto name : absl::StrSplit(kCodeOptions, ' ')) env.erase(std::string(name));
  for (const auto name : absl::StrSplit(kCodePaths, ' ')) {
    const auto found = env.find(std::string(name));
    if (found == env.end()) continue;
    found->second = PathOutside(found->second, folder, ": ;");
    if (found->second.empty()) env.erase(found);
  }
}

absl::StatusOr<double> ValidReward(double number, const std::string& what) {
  if (const std::string fault = tree::RewardFault(number); !fault.empty()) {
    return absl::InternalError(absl::StrCat(what, " is not a valid reward: it ", fault));
  }
  return number;
}

absl::StatusOr<double> NumberOf(const value& json, const std::string& what) {
  if (json.is_number()) return ValidReward(json.to_number<double>(), what);
  if (json.is_bool()) return json.get_bool() ? 1.0 : 0.0;
  const std::optional<double> number =
      json.is_string() ? ParsePythonFloat(std::string(json.get_string())) : std::nullopt;
  if (!number.has_value()) return absl::InternalError(absl::StrCat(what, " is not a number"));
  return ValidReward(*number, what);
}

absl::StatusOr<Verdict> ParseText(const std::string& text) {
  const std::optional<double> number = ParsePythonFloat(text);
  if (!number.has_value())
    return absl::InternalError(absl::StrCat("reward.txt holds ", Quoted(text), ", which is not a number"));
  INGOT_ASSIGN_OR_RETURN(const double reward, ValidReward(*number, "reward.txt"));
  return Verdict{.reward = reward, .signals = {}, .facts = {}, .detail = "scored by test.sh"};
}

absl::StatusOr<Verdict> ParseObject(const std::string& text) {
  const auto json = base::ParseJson(text);
  if (!json.ok()) return base::Annotate(absl::InternalError(json.status().message()), "reward.json");
  Verdict verdict{.reward = 0, .signals = {}, .facts = {}, .detail = "scored by test.sh"};
  if (!json->is_object()) {
    INGOT_ASSIGN_OR_RETURN(verdict.reward, NumberOf(*json, "reward.json"));
    return verdict;
  }
  const auto& object = json->get_object();
  const value* reward = base::Find(*json, "reward");
  if (reward == nullptr && object.size() == 1) reward = &object.begin()->value();
  if (reward == nullptr) return absl::InternalError("reward.json has several numbers, but no number named 'reward'");
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
    if (input.sandbox == nullptr) return absl::InternalError("test.sh has no sandbox to run in");
    INGOT_ASSIGN_OR_RETURN(const HarborTask task, ReadHarborTask(input.task));
    INGOT_ASSIGN_OR_RETURN(const std::string source, FolderOf(input));
    INGOT_RETURN_IF_ERROR(base::Annotate(input.sandbox->FillBound(kTests, source), "verifier.harbor.tests"));
    INGOT_RETURN_IF_ERROR(input.sandbox->ClearBound(kLogs, "verifier"));
    sandbox::Command command{.argv = HarborScript(source + "/test.sh", "/tests/test.sh"),
                             .env = EnvironmentOf(input),
                             .working_dir = input.workdir,
                             .stdin_text = ""};
    for (const auto& [name, text] : input.env) {
      if (name == "PATH" || !command.env.contains(name)) command.env[name] = text;
    }
    for (const auto& [name, text] : task.env) command.env[name] = text;
    DropCodeIn(input.workdir, command.env);
    for (const auto& [name, text] : task.verifier_env) command.env[name] = text;
    std::string& path = command.env["PATH"];
    path = PathOutside(path, input.workdir, ":");
    if (path.empty()) path = sandbox::SearchPath({});
    sandbox::Limits limits = limits_;
    if (task.verifier_timeout_s > 0)
      limits.wall_time = std::chrono::nanoseconds(static_cast<int64_t>(task.verifier_timeout_s * 1e9));
    const auto outcome = input.sandbox->Run(command, limits, input.cancel);
    if (!outcome.ok()) return base::Annotate(outcome.status(), "test.sh did not run");
    return VerdictOf(*input.sandbox, *outcome, limits);
  }

  absl::StatusOr<sandbox::Command> Preflight(const VerifierInput& input) const override {
    INGOT_RETURN_IF_ERROR(ReadHarborTask(input.task).status());
    INGOT_RETURN_IF_ERROR(FolderOf(input).status());
    return sandbox::Command();
  }

 private:
  // Returns the verdict for a test.sh that has started.
  absl::StatusOr<Verdict> VerdictOf(sandbox::Sandbox& sandbox, const sandbox::Outcome& outcome,
                                    const sandbox::Limits& limits) const {
    const std::string what = absl::StrCat("test.sh ", sandbox::Describe(outcome, limits));
    switch (outcome.ending) {
      case sandbox::Ending::kCancelled:
        return absl::CancelledError(what);
      case sandbox::Ending::kNoSpace:
        return absl::InternalError(what);
      case sandbox::Ending::kTimedOut:
        return Without(kTimedOut, options_.harbor.timeout_is_zero, what);
      case sandbox::Ending::kOutputOverflow:
      case sandbox::Ending::kDiskFull:
        return Without(kNoReward, options_.harbor.no_reward_is_zero, what);
      case sandbox::Ending::kExited:
      case sandbox::Ending::kSignalled:
      case sandbox::Ending::kMemoryFull:
        break;
    }
    absl::StatusOr<std::optional<Verdict>> left = Left(sandbox);
    // One of the agent's programs, started by the tests, can also write the file.
    if (absl::IsInternal(left.status())) return absl::DataLossError(absl::StrCat(what, ": ", left.status().message()));
    INGOT_RETURN_IF_ERROR(left.status());
    if (left->has_value()) {
      for (const char* const signal : {kNoReward, kTimedOut}) (*left)->signals[signal] = 0;
      return **std::move(left);
    }
    return Without(kNoReward, options_.harbor.no_reward_is_zero,
                   absl::StrCat(what, " and left no reward in /logs/verifier/reward.json or reward.txt; its stderr: ",
                                Quoted(Trimmed(outcome.err))));
  }

  // Returns the reward that test.sh wrote, or nullopt if there is none. Returns INTERNAL if the file is not a reward.
  static absl::StatusOr<std::optional<Verdict>> Left(sandbox::Sandbox& sandbox) {
    INGOT_ASSIGN_OR_RETURN(const std::string json, Read(sandbox, "verifier/reward.json"));
    if (!json.empty()) return ParseObject(json);
    INGOT_ASSIGN_OR_RETURN(const std::string text, Read(sandbox, "verifier/reward.txt"));
    if (!text.empty()) return ParseText(text);
    return std::nullopt;
  }

  // Returns reward 0 with this signal, or an error.
  static absl::StatusOr<Verdict> Without(const std::string& signal, bool is_zero, const std::string& what) {
    if (!is_zero) return absl::InternalError(what);
    Verdict verdict = Judged(false, what);
    for (const char* const each : {kNoReward, kTimedOut}) verdict.signals[each] = each == signal ? 1 : 0;
    return verdict;
  }

  // Returns the trimmed content of a file in /logs. Returns "" if test.sh did not write it, or wrote something else
  // there that cannot be read.
  static absl::StatusOr<std::string> Read(sandbox::Sandbox& sandbox, const std::string& name) {
    const auto text = sandbox.ReadBound(kLogs, name, kLargestReport);
    if (text.ok()) return Trimmed(*text);
    const absl::Status& status = text.status();
    if (absl::IsNotFound(status) || absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status) ||
        absl::IsPermissionDenied(status)) {
      return "";
    }
    if (absl::IsOutOfRange(status)) return absl::InternalError(status.message());  // not a reward
    return base::Annotate(status, "the reward of test.sh");
  }

  absl::StatusOr<std::string> FolderOf(const VerifierInput& input) const {
    const auto rendered = tests_.Render(VariablesOf(input));
    if (!rendered.ok()) return base::Annotate(rendered.status(), "verifier.harbor.tests");
    const std::string folder = rendered->starts_with('/') ? *rendered : absl::StrCat(input.cwd, "/", *rendered);
    const base::Fd opened(open(folder.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    const base::Fd script = base::OpenBeneath(opened.get(), "test.sh", O_PATH);
    struct stat info;
    if (opened.valid() && script.valid() && fstat(script.get(), &info) == 0 && S_ISREG(info.st_mode)) return folder;
    return absl::NotFoundError(
        absl::StrCat("verifier.harbor.tests: ", folder, " has no test.sh, or is a link: set it to the folder itself"));
  }

  const VerifierOptions options_;
  const Template tests_;
  sandbox::Limits limits_;
};

}  // namespace

std::vector<std::string> HarborScript(const std::string& source, const std::string& at) {
  constexpr char kByShell[] = R"(if command -v bash >/dev/null; then exec bash "$1"; fi; exec sh "$1")";
  std::array<char, 2> mark{};
  std::ifstream(source).read(mark.data(), mark.size());
  if (mark == std::array{'#', '!'}) return {at};
  return {"sh", "-c", kByShell, "sh", at};
}

std::vector<sandbox::BindMount> HarborBinds() { return {{kTests, "/tests"}, {kLogs, "/logs"}}; }

absl::StatusOr<std::unique_ptr<const Verifier>> MakeHarbor(const VerifierOptions& options) {
  auto tests = Template::Parse(options.harbor.tests, VerifierVariables());
  if (!tests.ok()) return base::Annotate(tests.status(), "verifier.harbor.tests");
  return std::make_unique<HarborVerifier>(options, std::move(*tests));
}

}  // namespace ingot::reward
