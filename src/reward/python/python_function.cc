#include "reward/python/python_function.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/escaping.h"
#include "base/file.h"
#include "base/json.h"
#include "base/printable.h"
#include "base/python_name.h"
#include "reward/python/worker_program.h"
#include "sandbox/process.h"

namespace ingot::reward {
namespace {

namespace fs = std::filesystem;

constexpr double kLoadSeconds = 60;
constexpr size_t kMaxSources = 256;
constexpr int64_t kMaxSourceBytes = 8 << 20;
constexpr size_t kLongestReply = 4 << 20;
constexpr size_t kLongestError = 4096;  // bytes of a stack trace

// The function's file and the other files in its folder.
struct Sources {
  std::string folder;
  std::vector<fs::path> paths;
  std::string stamp;  // changes if one of them changes
};

absl::StatusOr<Sources> FindSources(const fs::path& file) {
  Sources sources{.folder = file.parent_path().string(), .paths = {}, .stamp = ""};
  std::error_code error;
  if (!fs::is_regular_file(file, error)) {
    return absl::InvalidArgumentError(absl::StrCat(file.string(), " is not a file"));
  }
  for (fs::directory_iterator it(sources.folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code gone;
    if (it->path().extension() == ".py" && it->is_regular_file(gone)) sources.paths.push_back(it->path());
  }
  if (error) return absl::InvalidArgumentError(absl::StrCat("cannot list ", sources.folder, ": ", error.message()));
  std::sort(sources.paths.begin(), sources.paths.end());
  int64_t bytes = 0;
  for (const fs::path& path : sources.paths) {
    struct stat about{};
    if (stat(path.c_str(), &about) != 0) continue;  // removed meanwhile
    bytes += about.st_size;
    absl::StrAppend(&sources.stamp, path.filename().string(), " ", about.st_ino, " ", about.st_size, " ",
                    about.st_mtim.tv_sec, ".", about.st_mtim.tv_nsec, "\n");
  }
  if (sources.paths.size() <= kMaxSources && bytes <= kMaxSourceBytes) return sources;
  return absl::InvalidArgumentError(absl::StrCat(sources.folder, " has more than ", kMaxSources, " .py files, or ",
                                                 kMaxSourceBytes, " bytes of them: move ", file.filename().string(),
                                                 " to a separate folder"));
}

fs::path FileIn(const std::string& cwd, const std::string& place) { return fs::path(cwd) / place; }

// Returns the result in the worker's reply.
absl::StatusOr<std::string> ResultIn(const std::string& reply, const std::string& what) {
  INGOT_ASSIGN_OR_RETURN(const base::json::value json, base::ParseJson(reply));
  if (const base::json::value* result = base::Find(json, "result")) return base::PrintJson(*result);
  const base::json::value* error = base::Find(json, "error");
  std::string text = error != nullptr && error->is_string() ? std::string(error->get_string()) : reply;
  if (text.size() > kLongestError) text = "... " + text.substr(text.size() - kLongestError);
  return absl::InternalError(absl::StrCat(what, ": ", base::PrintableLines(text)));
}

}  // namespace

PythonFunction::PythonFunction(PythonOptions options, std::string key)
    : options_(std::move(options)),
      key_(std::move(key)),
      workers_(
          {.processes = options_.workers,
           .load_s = kLoadSeconds,
           .longest_reply = kLongestReply,
           .name = key_ + ".interpreter",
           .advice = "; it must run in a sandbox: add its folders to sandbox.visible if sandboxes cannot see them"}) {}

absl::StatusOr<LineWorkers::Program> PythonFunction::ProgramIn(const std::string& cwd) const {
  LineWorkers::Program program;
  const std::string file = options_.File();
  const auto [place, name] = base::SplitPythonName(options_.function);
  program.command.argv = {options_.interpreter.empty() ? UserPython() : options_.interpreter, "-c", kPythonWorker,
                          file.empty() ? place : FileIn(cwd, file).string(), name};
  program.command.env = sandbox::InheritedEnvironment({"PATH", "LANG", "LC_ALL", "VIRTUAL_ENV", "PYTHONPATH"});
  if (file.empty()) return program;
  const auto sources = FindSources(FileIn(cwd, file));
  if (!sources.ok()) return base::Annotate(sources.status(), key_ + ".function");
  for (const fs::path& path : sources->paths) {
    INGOT_ASSIGN_OR_RETURN(program.files[path.filename().string()], base::ReadFile(path.string()));
  }
  return program;
}

absl::StatusOr<std::string> PythonFunction::Ask(sandbox::Substrate& substrate, const std::string& cwd,
                                                const std::string& question, double seconds,
                                                const sandbox::Cancellation* cancel) const {
  LineWorkers::Source source{.key = options_.function, .make = [&] { return ProgramIn(cwd); }};
  if (const std::string file = options_.File(); !file.empty()) {
    const auto sources = FindSources(FileIn(cwd, file));
    if (!sources.ok()) return base::Annotate(sources.status(), key_ + ".function");
    source.key = sources->stamp;
  }
  const auto reply = workers_.Ask(substrate, source, question + "\n", seconds, cancel);
  if (absl::IsDeadlineExceeded(reply.status())) {
    return absl::DeadlineExceededError(
        absl::StrCat(options_.function, " did not return within ", seconds, " s (", key_, ".timeout_s)"));
  }
  INGOT_RETURN_IF_ERROR(reply.status());
  return ResultIn(*reply, options_.function);
}

absl::StatusOr<std::string> PythonFunction::Call(sandbox::Substrate& substrate, const std::string& cwd,
                                                 const std::string& arguments, const std::string& archive,
                                                 const sandbox::Cancellation* cancel) const {
  return Ask(substrate, cwd,
             absl::StrCat(R"({"arguments":)", arguments, R"(,"archive":")", absl::Base64Escape(archive), "\"}"),
             options_.timeout_s, cancel);
}

absl::Status PythonFunction::Load(sandbox::Substrate& substrate, const std::string& cwd,
                                  const std::vector<std::string>& arguments) const {
  base::json::array names(arguments.begin(), arguments.end());
  return Ask(substrate, cwd, base::PrintJson(base::json::object{{"load", std::move(names)}}), kLoadSeconds, nullptr)
      .status();
}

}  // namespace ingot::reward
