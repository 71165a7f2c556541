#include "reward/verifiers/harbor.h"

#include <cstdlib>
#include <filesystem>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/json.h"
#include "reward/harbor_task.h"
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

// Folders in which an agent can have put programs are no place to look for those of the tests.
std::string PathOutside(const std::string& path, const std::string& folder) {
  const auto normal = [](std::string_view text) { return (fs::path(text) / "").lexically_normal().string(); };
  std::vector<std::string> kept;
  const std::vector<std::string> places = absl::StrSplit(path, ':');
  for (const std::string& each : places) {
    const bool is_outside = folder == "/" || !normal(each).starts_with(normal(folder));
    if (each.starts_with('/') && is_outside) kept.push_back(each);
  }
  return absl::StrJoin(kept, ":");
}

// /logs has an empty folder verifier/.
absl::Status MakeLogs(sandbox::Room& room) {
  std::string made = (fs::temp_directory_path() / "ingot-logs-XXXXXX").string();
  if (mkdtemp(made.data()) == nullptr) return absl::UnavailableError(absl::StrCat("cannot make ", made));
  std::error_code ignored;
  fs::permissions(made, fs::perms::all, ignored);
  fs::create_directory(made + "/verifier", ignored);
  absl::Status filled = room.FillBound(kLogs, made);
  fs::remove_all(made, ignored);
  return filled;
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
    INGOT_ASSIGN_OR_RETURN(const HarborTask task, ReadHarborTask(input.task));
    INGOT_ASSIGN_OR_RETURN(const std::string source, FolderOf(input));
    INGOT_RETURN_IF_ERROR(base::Annotate(input.room->FillBound(kTests, source), "verifier.harbor.tests"));
    INGOT_RETURN_IF_ERROR(MakeLogs(*input.room));
    sandbox::Command command{.argv = {"sh", "-c", kRunHarborScript, "sh", "/tests/test.sh"},
                             .env = EnvironmentOf(input),
                             .working_dir = input.workdir,
                             .stdin_text = ""};
    for (const auto& [name, text] : input.env) {
      if (name == "PATH" || !command.env.contains(name)) command.env[name] = text;
    }
    for (const auto* const more : {&task.env, &task.verifier_env}) {
      for (const auto& [name, text] : *more) command.env[name] = text;
    }
    command.env["PATH"] = PathOutside(sandbox::SearchPath(command.env), input.workdir);
    sandbox::Limits limits = limits_;
    if (task.verifier_timeout_s > 0)
      limits.wall_time = std::chrono::nanoseconds(static_cast<int64_t>(task.verifier_timeout_s * 1e9));
    const auto outcome = input.room->Run(command, limits, input.cancel);
    if (!outcome.ok()) return base::Annotate(outcome.status(), "test.sh did not run");
    if (outcome->ending == sandbox::Ending::kCancelled) return absl::CancelledError("test.sh was cancelled");
    if (outcome->ending == sandbox::Ending::kTimedOut && options_.timeout_is_zero) {
      return Judged(false, "test.sh ran past its time limit");
    }
    const std::string described = sandbox::Describe(*outcome, limits);
    if (outcome->ending != sandbox::Ending::kExited) return absl::InternalError(absl::StrCat("test.sh ", described));
    return Read(*input.room,
                absl::StrCat(described, " and left neither /logs/verifier/reward.json nor reward.txt; its ",
                             "stderr: ", Quoted(Trimmed(outcome->err))));
  }

  absl::StatusOr<sandbox::Command> Rehearse(const VerifierInput& input) const override {
    INGOT_RETURN_IF_ERROR(ReadHarborTask(input.task).status());
    INGOT_RETURN_IF_ERROR(FolderOf(input).status());
    return sandbox::Command();
  }

 private:
  // `neither`: the error's text where there is no report.
  static absl::StatusOr<Verdict> Read(sandbox::Room& room, const std::string& neither) {
    const auto json = room.ReadBound(kLogs, "verifier/reward.json", kLargestReport);
    if (json.ok()) return ParseObject(*json);
    const auto text = room.ReadBound(kLogs, "verifier/reward.txt", kLargestReport);
    if (text.ok()) return ParseText(*text);
    return absl::InternalError(absl::StrCat("test.sh ", neither));
  }

  absl::StatusOr<std::string> FolderOf(const VerifierInput& input) const {
    const auto rendered = tests_.Render(VariablesOf(input));
    if (!rendered.ok()) return base::Annotate(rendered.status(), "verifier.harbor.tests");
    const std::string folder = rendered->starts_with('/') ? *rendered : absl::StrCat(input.cwd, "/", *rendered);
    std::error_code none;
    if (fs::exists(folder + "/test.sh", none)) return folder;
    return absl::NotFoundError(absl::StrCat("verifier.harbor.tests: ", folder, " holds no test.sh"));
  }

  const VerifierOptions options_;
  const Template tests_;
  sandbox::Limits limits_;
};

}  // namespace

std::vector<sandbox::Bind> HarborBinds() { return {{kTests, "/tests"}, {kLogs, "/logs"}}; }

absl::StatusOr<std::unique_ptr<const Verifier>> MakeHarbor(const VerifierOptions& options) {
  auto tests = Template::Parse(options.harbor.tests, VerifierVariables());
  if (!tests.ok()) return base::Annotate(tests.status(), "verifier.harbor.tests");
  return std::make_unique<HarborVerifier>(options, std::move(*tests));
}

}  // namespace ingot::reward
