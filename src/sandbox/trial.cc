#include "sandbox/trial.h"

#include <array>
#include <filesystem>
#include <memory>
#include <string_view>

#include "absl/strings/ascii.h"
#include "base/printable.h"
#include "base/utf8.h"

namespace ingot::sandbox {
namespace {

struct Kind {
  std::string_view name;  // prefix of the program's name
  const char* option;
  const char* prints_one;
};
constexpr std::array kKinds = {Kind{"python", "-c", "print(1)"}, Kind{"node", "-e", "console.log(1)"},
                               Kind{"ruby", "-e", "puts 1"},     Kind{"perl", "-e", "print 1"},
                               Kind{"bash", "-c", "echo 1"},     Kind{"sh", "-c", "echo 1"}};

// "python3.12" is python, but "shellcheck" is not sh.
bool IsKind(std::string_view name, std::string_view kind) {
  if (!name.starts_with(kind)) return false;
  return name.find_first_not_of("0123456789.", kind.size()) == std::string_view::npos;
}

}  // namespace

std::vector<std::string> PrintsOne(const std::string& program) {
  const std::string name = std::filesystem::path(program).filename();
  for (const Kind& kind : kKinds) {
    if (IsKind(name, kind.name)) return {kind.option, kind.prints_one};
  }
  return {};
}

bool CouldNotStart(const Outcome& outcome) {
  return outcome.ending == Ending::kExited && (outcome.exit_code == 126 || outcome.exit_code == 127);
}

absl::Status StartFault(const std::string& program, const std::string& what) {
  return absl::FailedPreconditionError(
      absl::StrCat("'", program, "' does not start in its sandbox: ", what,
                   "; sandboxes see only programs and their own folders: add the folders that it needs to "
                   "sandbox.visible (docs/guide/sandbox.md)"));
}

absl::Status TryInterpreter(Substrate& substrate, const Command& like) {
  const std::vector<std::string> words = PrintsOne(like.argv[0]);
  if (words.empty()) return absl::OkStatus();
  INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<Sandbox> sandbox, substrate.Prepare());
  Command command{
      .argv = {like.argv[0], words[0], words[1]}, .env = like.env, .working_dir = sandbox->work(), .stdin_text = ""};
  command.env["HOME"] = sandbox->home();
  command.env["TMPDIR"] = sandbox->tmp();
  const Limits limits;
  const absl::StatusOr<Outcome> outcome = sandbox->Run(command, limits, nullptr);
  if (absl::IsNotFound(outcome.status()) || absl::IsPermissionDenied(outcome.status()) ||
      absl::IsInvalidArgument(outcome.status())) {
    return StartFault(like.argv[0], std::string(outcome.status().message()));
  }
  INGOT_RETURN_IF_ERROR(outcome.status());
  if (outcome->ok() && absl::StripAsciiWhitespace(outcome->out) == "1") return absl::OkStatus();
  return StartFault(
      like.argv[0],
      absl::StrCat("it ", Describe(*outcome, limits), ", but it should have printed 1; its stderr: ",
                   base::CutText(base::Printable(std::string(absl::StripAsciiWhitespace(outcome->err))), 200)));
}

}  // namespace ingot::sandbox
