#include "app/run/loss_trace.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <utility>

#include "base/fd.h"
#include "base/json.h"
#include "base/printable.h"
#include "base/python_name.h"
#include "reward/python/python_options.h"
#include "sandbox/spawn.h"
#include "trainer/custom_loss/operations.h"

namespace ingot::app {
namespace {

using base::Fd;
namespace json = base::json;

constexpr char kKey[] = "trainer.custom.function";
constexpr size_t kLongestAnswer = 8 << 20;
constexpr size_t kLongestError = 4096;  // bytes of a stack trace

struct Finished {
  std::string out, err;
  int status = 0;
};

Fd MemoryFile(const char* name) { return Fd(memfd_create(name, MFD_CLOEXEC)); }

// Returns at most `most` bytes from the end of the file.
std::string TailOf(const Fd& file, size_t most) {
  const off_t size = lseek(file.get(), 0, SEEK_END);
  std::string text(std::min(most, size > 0 ? static_cast<size_t>(size) : 0), '\0');
  const ssize_t read = pread(file.get(), text.data(), text.size(), size - static_cast<off_t>(text.size()));
  text.resize(read > 0 ? static_cast<size_t>(read) : 0);
  return text;
}

sandbox::Command CommandOf(const trainer::CustomLossOptions& custom, const std::string& python) {
  json::array operations;
  for (const trainer::Operation& operation : trainer::LossOperations()) operations.emplace_back(operation.name);
  const auto [place, name] = base::SplitPythonName(custom.function);
  sandbox::Command command;
  command.argv = {python, "-c", std::string(kTraceLossText), place, name, base::PrintJson(operations)};
  command.env = sandbox::InheritedEnvironment(
      {"PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "VIRTUAL_ENV", "PYTHONPATH", "LD_LIBRARY_PATH"});
  // A compiled function would hide its operations, and the trace needs neither threads nor a device.
  command.env["TORCH_COMPILE_DISABLE"] = "1";
  command.env["PYTORCH_JIT"] = "0";
  command.env["OMP_NUM_THREADS"] = "1";
  command.env["CUDA_VISIBLE_DEVICES"] = "";
  return command;
}

absl::StatusOr<Finished> Run(const sandbox::Command& command, std::chrono::milliseconds timeout) {
  const Fd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const Fd out = MemoryFile("loss trace"), err = MemoryFile("loss trace errors");
  if (!null.valid() || !out.valid() || !err.valid()) return absl::UnavailableError("cannot open a file in memory");
  const auto pid = sandbox::Spawn(command, {null.get(), out.get(), err.get()}, {.dies_with_its_thread = true});
  if (!pid.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("cannot run '", command.argv[0],
                                                   "': ", std::string(pid.status().message()),
                                                   "; name an interpreter that has torch with the key `python`"));
  }
  Finished finished;
  INGOT_ASSIGN_OR_RETURN(finished.status, sandbox::AwaitChild(*pid, command.argv[0], timeout));
  finished.out = TailOf(out, kLongestAnswer);
  finished.err = TailOf(err, kLongestError);
  return finished;
}

absl::StatusOr<std::string> GraphIn(const Finished& finished, const std::string& python) {
  const auto answer = base::ParseJson(finished.out);
  if (answer.ok()) {
    if (const json::value* graph = base::Find(*answer, "graph")) return base::PrintJson(*graph);
    if (const json::value* error = base::Find(*answer, "error"); error != nullptr && error->is_string()) {
      std::string text(error->get_string());
      if (text.size() > kLongestError) text = "... " + text.substr(text.size() - kLongestError);
      return absl::InvalidArgumentError(base::PrintableLines(text));
    }
  }
  const std::string ending = WIFSIGNALED(finished.status)
                                 ? absl::StrCat("was killed by signal ", WTERMSIG(finished.status))
                                 : absl::StrCat("exited with ", WEXITSTATUS(finished.status));
  return absl::InvalidArgumentError(absl::StrCat(python, " ", ending, " without a trace of the loss",
                                                 finished.err.empty() ? "" : ": ", base::PrintableLines(finished.err)));
}

}  // namespace

absl::StatusOr<std::string> TraceLoss(const trainer::CustomLossOptions& custom, const std::string& python,
                                      std::chrono::milliseconds timeout) {
  const std::string interpreter = python.empty() ? reward::UserPython() : python;
  const auto graph = [&]() -> absl::StatusOr<std::string> {
    INGOT_ASSIGN_OR_RETURN(const Finished finished, Run(CommandOf(custom, interpreter), timeout));
    return GraphIn(finished, interpreter);
  }();
  return graph.ok() ? graph : base::Annotate(graph.status(), absl::StrCat(kKey, " ", custom.function));
}

}  // namespace ingot::app
