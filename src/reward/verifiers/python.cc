#include "reward/verifiers/python.h"

#include <utility>

#include "base/json.h"
#include "reward/python/python_function.h"
#include "reward/verifiers/answer_verifier.h"
#include "reward/verifiers/report.h"

namespace ingot::reward {
namespace {

using base::json::object;
using base::json::value;

constexpr int64_t kMaxFileBytes = 16 << 20;

// Converts the dictionary to a report. Numbers with other names become signals, and their sum is the reward if there is
// no "reward".
object AsReport(const object& result) {
  object report, signals;
  if (const value* own = result.if_contains("signals"); own != nullptr && own->is_object()) signals = own->get_object();
  double sum = 0;
  for (const auto& [name, entry] : result) {
    if (name == "reward" || name == "facts" || name == "detail" || name == "signals") {
      report[name] = entry;
    } else if (entry.is_number()) {
      signals[name] = entry;
      sum += entry.to_number<double>();
    }
  }
  if (!report.contains("reward") && !signals.empty()) report["reward"] = sum;
  report["signals"] = std::move(signals);
  return report;
}

// Returns a tar of the sandbox's files. DATA_LOSS: they are too large.
absl::StatusOr<std::string> ArchiveOf(sandbox::Sandbox& sandbox) {
  INGOT_ASSIGN_OR_RETURN(const auto snapshot, sandbox.TakeSnapshot());
  std::string archive;
  INGOT_RETURN_IF_ERROR(snapshot->WriteTar([&archive](std::string_view bytes) -> absl::Status {
    if (static_cast<int64_t>(archive.size() + bytes.size()) > kMaxFileBytes) {
      return absl::DataLossError(absl::StrCat("the agent's files have more than ", kMaxFileBytes,
                                              " bytes, the maximum for verifier.python.files"));
    }
    archive.append(bytes);
    return absl::OkStatus();
  }));
  return archive;
}

class PythonVerifier final : public AnswerVerifier {
 public:
  explicit PythonVerifier(VerifierOptions options)
      : AnswerVerifier(options), function_(options_.python, "verifier.python") {}

 private:
  std::vector<std::string> Arguments() const {
    std::vector<std::string> names = {"task", "answer", "messages", "episode_id"};
    if (options_.python.files) names.emplace_back("files");
    return names;
  }
  absl::StatusOr<sandbox::Command> Preflight(const VerifierInput& input) const override {
    INGOT_ASSIGN_OR_RETURN(LineWorkers::Program program, function_.ProgramIn(input.cwd));
    return std::move(program.command);
  }
  absl::Status TryProgram(sandbox::Substrate& substrate, const std::string& cwd) const override {
    return base::Annotate(function_.Load(substrate, cwd, Arguments()), "verifier.python.function");
  }
  absl::StatusOr<Verdict> Judge(const std::string& answer, const VerifierInput& input) const override {
    if (input.substrate == nullptr)
      return absl::InternalError("there is no substrate to run the verifier's function on");
    INGOT_ASSIGN_OR_RETURN(value task, base::ParseJson(std::string(input.task)));
    std::string messages = "[]";
    if (input.messages) {
      INGOT_ASSIGN_OR_RETURN(messages, input.messages());
    }
    INGOT_ASSIGN_OR_RETURN(value spoken, base::ParseJson(messages));
    const object arguments{{"task", std::move(task)},
                           {"answer", answer},
                           {"messages", std::move(spoken)},
                           {"episode_id", input.episode_id}};
    std::string archive;
    if (options_.python.files && input.sandbox != nullptr) {
      INGOT_ASSIGN_OR_RETURN(archive, ArchiveOf(*input.sandbox));
    }
    INGOT_ASSIGN_OR_RETURN(const std::string result, function_.Call(*input.substrate, input.cwd,
                                                                    base::PrintJson(arguments), archive, input.cancel));
    return VerdictOf(result);
  }
  absl::StatusOr<Verdict> VerdictOf(const std::string& result) const {
    INGOT_ASSIGN_OR_RETURN(const value json, base::ParseJson(result));
    auto verdict = ParseReport(json.is_object() ? base::PrintJson(AsReport(json.get_object())) : result);
    if (!verdict.ok()) {
      return absl::InternalError(absl::StrCat(options_.python.function, " returned ", Quoted(result), ": ",
                                              verdict.status().message(),
                                              "; return a number or a dictionary of numbers"));
    }
    if (verdict->detail.empty()) verdict->detail = "scored by " + options_.python.function;
    return verdict;
  }

  const PythonFunction function_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Verifier>> MakePython(const VerifierOptions& options) {
  INGOT_RETURN_IF_ERROR(base::Annotate(options.python.Validate(), "verifier"));
  return std::make_unique<PythonVerifier>(options);
}

}  // namespace ingot::reward
