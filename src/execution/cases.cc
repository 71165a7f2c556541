#include "execution/cases.h"

#include <functional>
#include <utility>
#include <vector>

#include "execution/files_api.h"
#include "execution/requests.h"
#include "execution/run_to_end.h"

namespace ingot::execution {
namespace {

using base::json::array;
using base::json::object;
using base::json::value;

// The parts of a request, all checked before anything runs.
struct Batch {
  sandbox::Limits limits;
  std::map<std::string, std::string> files, env;
  Code code;
  std::vector<std::string> cases;
};

absl::StatusOr<Batch> BatchOf(const value& request) {
  if (!request.is_object()) return absl::InvalidArgumentError("a request is a JSON object");
  Batch batch;
  INGOT_ASSIGN_OR_RETURN(batch.limits, LimitsOf(request));
  INGOT_ASSIGN_OR_RETURN(batch.files, MapField(request, "files"));
  INGOT_ASSIGN_OR_RETURN(batch.env, MapField(request, "env"));
  INGOT_ASSIGN_OR_RETURN(batch.code, CodeOf(request));
  INGOT_ASSIGN_OR_RETURN(batch.cases, CasesOf(request));
  if (!batch.code.file.empty()) batch.files[batch.code.file] = batch.code.text;
  return batch;
}

absl::StatusOr<object> RunCases(const Batch& batch,
                                const std::function<absl::StatusOr<sandbox::Outcome>(const std::string& in)>& run) {
  array results;
  for (const std::string& each : batch.cases) {
    INGOT_ASSIGN_OR_RETURN(const sandbox::Outcome outcome, run(each));
    results.push_back(CaseOf(outcome));
  }
  return object{{"cases", std::move(results)}};
}

}  // namespace

absl::StatusOr<object> RunInNewRoom(sandbox::Substrate& substrate, sandbox::ImageStore& images, const value& request) {
  INGOT_ASSIGN_OR_RETURN(const Batch batch, BatchOf(request));
  INGOT_ASSIGN_OR_RETURN(const std::string source, ImageOf(request));
  sandbox::Image image;
  sandbox::RoomOptions options;
  if (!source.empty()) {
    INGOT_ASSIGN_OR_RETURN(image, images.Resolve(source));
    options.image = image.rootfs;
  }
  INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<sandbox::Room> room, substrate.Prepare(options));
  for (const auto& [path, text] : batch.files)
    INGOT_RETURN_IF_ERROR(base::Annotate(room->WriteFile(path, text), "files"));
  sandbox::Command command{.argv = batch.code.argv, .env = image.env, .working_dir = room->work(), .stdin_text = ""};
  command.env.emplace("PATH", "/usr/local/bin:/usr/bin:/bin");
  command.env["HOME"] = room->home();
  command.env["TMPDIR"] = room->tmp();
  for (const auto& [name, text] : batch.env) command.env[name] = text;
  return RunCases(batch, [&](const std::string& in) {
    command.stdin_text = in;
    return room->Run(command, batch.limits, nullptr);
  });
}

absl::StatusOr<object> RunInSession(Session& session, const value& request) {
  INGOT_ASSIGN_OR_RETURN(const Batch batch, BatchOf(request));
  for (const auto& [path, text] : batch.files)
    INGOT_RETURN_IF_ERROR(base::Annotate(WriteWhole(session, path, text), "files"));
  return RunCases(batch, [&](const std::string& in) {
    Program program;
    program.argv = batch.code.argv;
    program.env = batch.env;
    program.memory_bytes = batch.limits.memory_bytes;
    program.cpu_seconds = batch.limits.cpu_seconds;
    program.wall_time = batch.limits.wall_time;
    return RunToEnd(session, std::move(program), in, batch.limits.output_bytes);
  });
}

}  // namespace ingot::execution
