#include "app/commands/model/engine_command.h"

#include <filesystem>
#include <memory>
#include <ostream>
#include <utility>

#include "absl/strings/str_format.h"
#include "app/models/snapshots.h"
#include "app/models/weight_reference.h"
#include "app/roles/assembly.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/secret.h"
#include "engines/server/exchange_folder.h"
#include "engines/verification/engine_check.h"
#include "model/config.h"
#include "text/tokenizer/tokenizer.h"

namespace ingot::app {
namespace {

const char* WordOf(engines::Verdict verdict) {
  switch (verdict) {
    case engines::Verdict::kRight:
      return "right";
    case engines::Verdict::kWrong:
      return "wrong";
    case engines::Verdict::kNotOffered:
      break;
  }
  return "not offered";
}

absl::Status CheckArgs(const EngineCheckArgs& args) {
  if (!args.url.starts_with("http://") && !args.url.starts_with("https://")) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", args.url, "' is not a server URL, such as http://127.0.0.1:8000"));
  }
  if (!args.write_dir.empty() && !args.write_dir.starts_with('/')) {
    return absl::InvalidArgumentError(
        absl::StrCat("--write ", args.write_dir, " must be an absolute path, because the server opens it too"));
  }
  return absl::OkStatus();
}

// The server, and what it is compared with.
struct Checked {
  base::Fd claim;
  std::unique_ptr<engines::EngineApi> api;
  std::unique_ptr<engines::ServerControl> control;
  std::unique_ptr<engines::WeightReference> reference;
  std::unique_ptr<engines::ExchangeFolder> folder;  // null = the server's weights are not changed
  std::shared_ptr<const weights::Snapshot> snapshot;
  engines::ServedModel model;
  std::shared_ptr<const text::Tokenizer> tokenizer;  // null = the folder has none that Ingot reads
};

absl::StatusOr<Checked> Prepare(const EngineCheckArgs& args) {
  Checked checked;
  INGOT_RETURN_IF_ERROR(CheckArgs(args));
  std::string key;
  if (!args.api_key_file.empty()) {
    INGOT_ASSIGN_OR_RETURN(key, base::ReadSecret(args.api_key_file));
  }
  checked.api = args.engine == "sglang" ? engines::NewSglangApi() : engines::NewVllmApi();
  checked.control = std::make_unique<engines::ServerControl>(*checked.api, key);
  checked.control->set_url(args.url);
  // The check resumes the server, which a run may have paused to load weights.
  INGOT_ASSIGN_OR_RETURN(checked.claim, engines::ClaimServer(args.exchange, args.url));
  INGOT_RETURN_IF_ERROR(checked.control->Health());
  INGOT_ASSIGN_OR_RETURN(const model::ModelConfig shape, model::ModelConfig::FromFile(args.model_dir + "/config.json"));
  INGOT_ASSIGN_OR_RETURN(checked.snapshot, LoadSnapshot(args.model_dir, 1));
  checked.model = ServedModelOf(shape, args.context_length);
  checked.reference = NewWeightReference(shape, args.threads);
  if (auto tokenizer = text::LoadTokenizer(args.model_dir); tokenizer.ok()) checked.tokenizer = *std::move(tokenizer);
  if (!args.write_dir.empty()) {
    INGOT_ASSIGN_OR_RETURN(checked.folder,
                           engines::ExchangeFolder::Open(args.write_dir, "engine-check", ServedWriter(shape)));
  }
  return checked;
}

base::json::value JsonOf(const std::vector<engines::Finding>& findings, const engines::EngineApi& api) {
  base::json::array list;
  for (const engines::Finding& finding : findings) {
    list.push_back(base::json::object{{"question", finding.question},
                                      {"verdict", WordOf(finding.verdict)},
                                      {"text", finding.text},
                                      {"required", finding.required}});
  }
  return base::json::object{{"engine", api.name()},
                            {"caveat", api.caveat()},
                            {"usable", engines::CanSample(findings)},
                            {"findings", std::move(list)}};
}

void PrintTable(const std::vector<engines::Finding>& findings, const engines::EngineApi& api, std::ostream& out) {
  if (!api.caveat().empty()) out << "Ingot's client for " << api.name() << " was " << api.caveat() << ".\n";
  for (const engines::Finding& finding : findings) {
    out << absl::StrFormat("%-12s %s: %s\n", WordOf(finding.verdict), finding.question, finding.text);
  }
  out << (engines::CanSample(findings) ? "The server can sample for a run: its log-probs can be trained on.\n"
                                       : "The server cannot sample for a run: see the failed lines.\n");
}

}  // namespace

int CheckEngineCommand(const EngineCheckArgs& args, std::ostream& out, std::ostream& err) {
  absl::StatusOr<Checked> checked = Prepare(args);
  if (!checked.ok()) {
    err << "ingot engine check: " << checked.status().message() << "\n";
    return absl::IsInvalidArgument(checked.status()) ? 2 : 1;
  }
  engines::EngineCheckParts parts{.api = *checked->api,
                                  .control = *checked->control,
                                  .model = checked->model,
                                  .reference = *checked->reference,
                                  .snapshot = checked->snapshot,
                                  .write = nullptr,
                                  .timeout = std::chrono::seconds(args.timeout_s),
                                  .tokenizer = checked->tokenizer,
                                  .may_crash = args.may_crash};
  if (checked->folder != nullptr) {
    parts.write = [&](const auto& snapshot) { return checked->folder->Write(snapshot); };
  }
  const absl::StatusOr<std::vector<engines::Finding>> findings = engines::CheckEngine(parts);
  if (!findings.ok()) {
    err << "ingot engine check: " << findings.status().message() << "\n";
    return 1;
  }
  if (args.json) {
    out << base::PrintJson(JsonOf(*findings, *checked->api)) << "\n";
  } else {
    PrintTable(*findings, *checked->api, out);
  }
  return engines::CanSample(*findings) ? 0 : 1;
}

}  // namespace ingot::app
