// `ingot tasks cases`: filters test cases as in Kimi k1.5 (arXiv 2501.12599, section 2.3.5). Runs submissions that are
// probably correct on generated cases, and keeps the cases where they agree.
#include "app/commands/data/tasks_cases.h"

#include <atomic>
#include <cstdio>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/ascii.h"
#include "agents/options.h"
#include "app/run/process.h"
#include "base/json.h"
#include "dataset/jsonl.h"
#include "dataset/task_filter.h"
#include "sandbox/substrate.h"
#include "sandbox/trial.h"

namespace ingot::app {
namespace {

using base::json::array;
using base::json::object;
using base::json::value;
using Outputs = std::vector<std::vector<std::optional<std::string>>>;

absl::StatusOr<std::vector<std::string>> TextsAt(const value& problem, const std::string& field) {
  const value* list = base::Find(problem, field);
  std::vector<std::string> texts;
  if (list != nullptr && list->is_array()) {
    for (const value& text : list->get_array()) {
      if (!text.is_string())
        return absl::InvalidArgumentError(absl::StrCat("'", field, "' has an element that is not a string"));
      texts.emplace_back(text.get_string());
    }
  }
  if (texts.empty()) return absl::InvalidArgumentError(absl::StrCat("it has no list '", field, "'"));
  return texts;
}

class CaseRunner {
 public:
  CaseRunner(sandbox::Substrate& substrate, const TasksCasesArgs& args) : substrate_(substrate), args_(args) {
    limits_.wall_time = std::chrono::nanoseconds(static_cast<int64_t>(args.timeout_s * 1e9));
    limits_.memory_bytes = 1LL << 30;
    limits_.output_bytes = 4 << 20;
  }

  absl::StatusOr<Outputs> Run(const std::vector<std::string>& submissions, const std::vector<std::string>& cases) {
    Outputs outputs(submissions.size(), std::vector<std::optional<std::string>>(cases.size()));
    std::atomic<size_t> next = 0;
    std::vector<absl::Status> faults(static_cast<size_t>(args_.threads));
    const auto work = [&](size_t thread) {
      for (size_t s = next++; s < submissions.size(); s = next++) {
        if (faults[thread] = RunOne(submissions[s], cases, outputs[s]); !faults[thread].ok()) return;
      }
    };
    {
      std::vector<std::jthread> threads;
      for (size_t t = 0; t < faults.size(); ++t) threads.emplace_back(work, t);
    }
    for (const absl::Status& fault : faults) INGOT_RETURN_IF_ERROR(fault);
    return outputs;
  }

 private:
  absl::Status RunOne(const std::string& program, const std::vector<std::string>& cases,
                      std::vector<std::optional<std::string>>& outputs) const {
    INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<sandbox::Sandbox> sandbox, substrate_.Prepare());
    INGOT_RETURN_IF_ERROR(sandbox->WriteFile("solution.py", program));
    sandbox::Command command;
    command.argv = {"python3", "-I", sandbox->work() + "/solution.py"};
    command.env = sandbox::InheritedEnvironment({"PATH", "LANG", "LC_ALL"});
    command.env["HOME"] = sandbox->home();
    command.working_dir = sandbox->work();
    for (size_t c = 0; c < cases.size(); ++c) {
      if (StopFlag()) return absl::CancelledError("stopped");
      command.stdin_text = cases[c];
      INGOT_ASSIGN_OR_RETURN(const sandbox::Outcome outcome, sandbox->Run(command, limits_, nullptr));
      if (outcome.ok()) outputs[c] = std::string(absl::StripTrailingAsciiWhitespace(outcome.out));
    }
    return absl::OkStatus();
  }

  sandbox::Substrate& substrate_;
  const TasksCasesArgs& args_;
  sandbox::Limits limits_;
};

// Returns the problem with the kept cases as `tests` for the `code` verifier, without cases and submissions.
object WithTests(const value& problem, const std::vector<std::string>& cases, const dataset::FilteredCases& filtered) {
  object out = problem.as_object();
  out.erase("cases");
  out.erase("submissions");
  array tests;
  for (const dataset::FilteredCases::Case& kept : filtered.kept) {
    tests.push_back(object{{"input", cases[kept.index]}, {"output", kept.output}});
  }
  out["tests"] = std::move(tests);
  return out;
}

absl::StatusOr<int> CasesOrError(const TasksCasesArgs& args) {
  sandbox::SubstrateOptions options;
  options.work_root = args.work_root.empty() ? agents::DefaultWorkRoot() : args.work_root;
  options.programs = {{"tasks cases", {"python3"}, sandbox::SearchPath(sandbox::InheritedEnvironment({"PATH"}))}};
  INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<sandbox::Substrate> substrate, sandbox::MakeSubstrate(options));
  if (substrate->probe_result().isolation == sandbox::IsolationLevel::kProcess && !args.allow_process) {
    return absl::FailedPreconditionError(
        absl::StrCat("submissions are untrusted programs, but this machine's strongest isolation level is ",
                     substrate->probe_result().Describe(), "; use --allow-process to run them anyway"));
  }
  const sandbox::Command python{.argv = {"python3"},
                                .env = sandbox::InheritedEnvironment({"PATH", "LANG", "LC_ALL"}),
                                .working_dir = "",
                                .stdin_text = ""};
  INGOT_RETURN_IF_ERROR(sandbox::TryInterpreter(*substrate, python));
  std::ofstream out(args.out, std::ios::binary | std::ios::trunc);
  if (!out) return absl::InvalidArgumentError(absl::StrCat("'", args.out, "' cannot be written"));
  const dataset::CaseFilterOptions filter{
      .min_agreeing = args.agreeing, .min_cases = args.cases, .min_passing = args.passing};
  CaseRunner runner(*substrate, args);
  int64_t problems = 0, kept = 0, cases_kept = 0, cases_all = 0;
  INGOT_RETURN_IF_ERROR(dataset::ReadJsonl(
      args.problems, {}, [&](int64_t number, std::string_view, const value& problem) -> absl::Status {
        INGOT_ASSIGN_OR_RETURN(const std::vector<std::string> cases, TextsAt(problem, "cases"));
        INGOT_ASSIGN_OR_RETURN(const std::vector<std::string> submissions, TextsAt(problem, "submissions"));
        INGOT_ASSIGN_OR_RETURN(const Outputs outputs, runner.Run(submissions, cases));
        const dataset::FilteredCases filtered = FilterCases(outputs, filter);
        ++problems;
        cases_all += std::ssize(cases);
        cases_kept += std::ssize(filtered.kept);
        std::printf("problem %ld: %zu of %zu cases kept, %ld of %zu submissions pass%s%s\n", static_cast<long>(number),
                    filtered.kept.size(), cases.size(), static_cast<long>(filtered.passing), submissions.size(),
                    filtered.dropped.empty() ? "" : "; dropped: ", filtered.dropped.c_str());
        if (!filtered.dropped.empty()) return absl::OkStatus();
        ++kept;
        out << base::PrintJson(WithTests(problem, cases, filtered)) << '\n';
        return absl::OkStatus();
      }));
  out.close();
  if (!out)
    return absl::UnavailableError(absl::StrCat("'", args.out, "' could not be written completely: is the disk full?"));
  std::printf("kept %ld of %ld problems, %ld of %ld cases, in %s\n", static_cast<long>(kept),
              static_cast<long>(problems), static_cast<long>(cases_kept), static_cast<long>(cases_all),
              args.out.c_str());
  if (kept > 0) return 0;
  return absl::NotFoundError("no problem was kept");
}

}  // namespace

int TasksCases(const TasksCasesArgs& args) {
  HandleSignals();
  const absl::StatusOr<int> code = CasesOrError(args);
  return code.ok() ? *code : Fail(code.status());
}

}  // namespace ingot::app
