#include "trainer/checkpoints/checkpoint.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <set>

#include "base/checksum.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/printable.h"
#include "model/draft_head.h"
#include "model/mtp_head.h"
#include "trainer/checkpoints/files.h"
#include "trainer/torch_edge.h"

namespace ingot::trainer {
namespace {

namespace fs = std::filesystem;
namespace json = base::json;
using model::ShardFile;

// Chosen so that one flipped bit cannot turn another format into the oldest one, which has no checksum to detect it.
constexpr char kFormat[] = "ingot-checkpoint-4";
constexpr const char* kState = base::kCheckpointState;
constexpr char kOptimizer[] = "optimizer";
constexpr char kWeights[] = "model";
constexpr char kReference[] = "reference.safetensors";
constexpr char kDraftState[] = "draft/state.safetensors";
constexpr char kPrefix[] = "step-";
constexpr char kTemporary[] = ".tmp-";
constexpr char kReplaced[] = ".old-";

// Returns the number in "step-N", or nullopt for other names.
std::optional<int64_t> StepOf(const std::string& name) {
  const std::string prefix = kPrefix;
  if (name.size() < prefix.size() + 8 || name.size() > prefix.size() + 18 || !name.starts_with(prefix)) return {};
  int64_t step = 0;
  for (const char c : name.substr(prefix.size())) {
    if (c < '0' || c > '9') return {};
    step = step * 10 + (c - '0');
  }
  return step;
}

std::string TemporaryFolder(const std::string& root, int64_t step) {
  return absl::StrCat(root, "/", kTemporary, CheckpointName(step));
}

// Returns the steps with a directory in `root`, newest first.
absl::StatusOr<std::vector<int64_t>> ListSteps(const std::string& root) {
  std::vector<int64_t> steps;
  std::error_code error;
  fs::directory_iterator it(root, error);
  if (error == std::errc::no_such_file_or_directory) return steps;
  if (error) return absl::UnavailableError(absl::StrCat("cannot list ", root, ": ", error.message()));
  for (; it != fs::directory_iterator(); it.increment(error)) {
    if (const auto step = StepOf(it->path().filename().string())) steps.push_back(*step);
  }
  if (error) return absl::UnavailableError(absl::StrCat("cannot list ", root, ": ", error.message()));
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

// Returns whether `name` can name a file in a checkpoint's directory or a subdirectory.
bool IsFileName(std::string_view name) {
  const size_t slash = name.find('/');
  const auto is_plain = [](std::string_view part) {
    return !part.empty() && part[0] != '.' && part.find('/') == std::string_view::npos;
  };
  if (slash == std::string_view::npos) return is_plain(name);
  return is_plain(name.substr(0, slash)) && is_plain(name.substr(slash + 1));
}

absl::Status CheckExtraFiles(const std::map<std::string, std::string>& extra_files) {
  for (const auto& [name, contents] : extra_files) {
    const bool taken =
        name == kState || name == "config.json" || name == model::kWeightsIndex || name.ends_with(".safetensors");
    if (!IsFileName(name) || taken) {
      return absl::InvalidArgumentError(absl::StrCat("'", name, "' cannot be an extra file in a checkpoint"));
    }
  }
  return absl::OkStatus();
}

json::value StateJson(const CheckpointContents& contents, size_t shards,
                      const std::map<std::string, base::FileDigest>& files) {
  const OptimizerOptions& schedule = contents.schedule;
  return json::object{{"format", kFormat},
                      {"step", contents.step},
                      {"next_batch", contents.step},
                      {"next_group", contents.next_group},
                      {"seed", contents.seed},
                      {"weights_checksum", base::Hex(contents.weights_checksum)},
                      {"optimizer_steps", contents.optimizer_steps},
                      {"optimizer_shards", shards},
                      {"schedule",
                       {{"total_steps", contents.total_steps},
                        {"learning_rate", schedule.learning_rate},
                        {"warmup_steps", schedule.warmup_steps},
                        {"decay", schedule.decay},
                        {"min_lr_ratio", schedule.min_lr_ratio}}},
                      {"files", base::PrintDigests(files)}};
}

// Writes a checkpoint's other files: the remaining model folder, the app's files, and state.json.
absl::Status WriteInto(const std::string& dir, const CheckpointContents& contents,
                       const std::vector<CheckpointShard>& shards,
                       const std::map<std::string, std::string>& extra_files) {
  std::map<std::string, base::FileDigest> digests;  // digests of the shards, from their writers
  std::map<std::string, std::string> file_of;
  int64_t bytes = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string file = ShardFile(kWeights, static_cast<int>(i), static_cast<int>(shards.size()));
    for (const std::string& parameter : shards[i].parameters) file_of[parameter] = file;
    bytes += shards[i].parameter_bytes;
    digests.insert(shards[i].files.begin(), shards[i].files.end());
  }
  if (shards.size() > 1) INGOT_RETURN_IF_ERROR(model::SaveWeightsIndex(dir, file_of, bytes));
  INGOT_RETURN_IF_ERROR(model::SaveModelConfig(dir, contents.config));
  INGOT_RETURN_IF_ERROR(model::AddMtpToConfig(dir, contents.config, contents.mtp));
  if (!contents.reference.empty()) {
    INGOT_RETURN_IF_ERROR(model::SaveSafetensors(dir + "/" + kReference, contents.reference, {{"format", "pt"}}));
  }
  if (!contents.draft.empty()) {
    INGOT_RETURN_IF_ERROR(model::WriteDraftHead(dir, contents.draft));
    INGOT_RETURN_IF_ERROR(model::SaveSafetensors(dir + "/" + kDraftState, contents.draft_state, {{"format", "pt"}}));
  }
  INGOT_RETURN_IF_ERROR(WriteTexts(dir, extra_files));
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(dir)) {
    if (!entry.is_directory()) names.push_back(entry.path().lexically_relative(dir).generic_string());
  }
  for (const std::string& name : names) {
    if (digests.contains(name)) continue;
    INGOT_ASSIGN_OR_RETURN(digests[name], base::DigestFile(dir + "/" + name));
  }
  const json::value state = StateJson(contents, shards.size(), digests);
  INGOT_RETURN_IF_ERROR(base::WriteFileDurably(dir + "/" + kState, base::Seal(state)));
  return base::SyncDir(dir);
}

void RemoveStale(const std::string& root, const CheckpointContents& newest, int64_t keep) {
  std::error_code ignored;
  const auto steps = ListSteps(root);
  if (!steps.ok()) return;
  int64_t seen = 0;
  bool sound = false;
  for (const int64_t step : *steps) {
    const bool newest_sound = !sound && step <= newest.last_sound_step;
    sound = sound || newest_sound;
    const bool stays = newest_sound || (newest.keep_every > 0 && step % newest.keep_every == 0);
    // Newer checkpoints are from before the run went back to an earlier checkpoint. This writer does not delete them.
    if (step <= newest.step && ++seen > keep && !stays) fs::remove_all(root + "/" + CheckpointName(step), ignored);
  }
  std::vector<fs::path> leftovers;
  for (const auto& entry : fs::directory_iterator(root, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kTemporary) || name.starts_with(kReplaced)) leftovers.push_back(entry.path());
  }
  for (const fs::path& path : leftovers) fs::remove_all(path, ignored);
}

// Renames a finished temporary directory. If a resumed run repeats a step, one of the two checkpoints exists at every
// moment: the replaced directory gets a temporary name, and RemoveStale deletes it.
absl::Status Install(const std::string& root, const std::string& temporary, const std::string& name) {
  return base::ReplaceFolder(temporary, root + "/" + name, root + "/" + kReplaced + name);
}

absl::Status Damaged(const std::string& path, const std::string& what) {
  return absl::DataLossError(absl::StrCat("checkpoint ", path, " is damaged: ", what));
}

absl::Status NotWritten(const absl::Status& why, const std::string& root, int64_t step) {
  return base::Annotate(why, absl::StrCat("cannot write checkpoint ", root, "/", CheckpointName(step),
                                          " (the earlier ones are untouched)"));
}

absl::StatusOr<int64_t> IntegerField(const json::value& state, const std::string& key) {
  const json::value* field = base::Find(state, key);
  if (field == nullptr || !field->is_int64() || field->as_int64() < 0) {
    return absl::DataLossError(absl::StrCat("state.json lacks a whole number '", key, "'"));
  }
  return field->as_int64();
}

absl::StatusOr<uint64_t> UnsignedField(const json::value& state, const std::string& key) {
  const json::value* field = base::Find(state, key);
  if (field != nullptr && field->is_uint64()) return field->as_uint64();
  INGOT_ASSIGN_OR_RETURN(const int64_t value, IntegerField(state, key));
  return static_cast<uint64_t>(value);
}

// Parses the text of state.json, which must have this format and a matching checksum.
absl::StatusOr<json::value> ParseState(const std::string& text) {
  auto state = base::ParseJson(text);
  if (!state.ok()) return absl::DataLossError(absl::StrCat("state.json: ", state.status().message()));
  const json::value* format = base::Find(*state, "format");
  if (format == nullptr || !format->is_string()) return absl::DataLossError("state.json has no format version");
  if (*format != json::value(kFormat)) {
    return absl::DataLossError(absl::StrCat(
        "state.json has format ", base::Shown(format->as_string()), ", but this version of ingot has format ", kFormat,
        ": resume with the version of ingot that wrote it, or load its weights with model.path"));
  }
  if (!base::IsSealed(text)) return absl::DataLossError("state.json differs from its checksum");
  return *std::move(state);
}

absl::StatusOr<int> ShardsOf(const json::value& state) {
  INGOT_ASSIGN_OR_RETURN(const int64_t shards, IntegerField(state, "optimizer_shards"));
  if (shards < 1 || shards > 99999) return absl::DataLossError(absl::StrCat("optimizer_shards is ", shards));
  return static_cast<int>(shards);
}

// The fields of state.json that a resume needs.
struct State {
  int64_t step = 0;
  uint64_t seed = 0;
  uint64_t weights_checksum = 0;
  int64_t optimizer_steps = 0;
  int64_t next_group = 0;
  int shards = 1;  // number of optimizer state files
  std::map<std::string, base::FileDigest> files;
};

absl::StatusOr<State> StateOf(const std::string& text) {
  INGOT_ASSIGN_OR_RETURN(const json::value parsed, ParseState(text));
  State state;
  INGOT_ASSIGN_OR_RETURN(state.step, IntegerField(parsed, "step"));
  INGOT_ASSIGN_OR_RETURN(state.seed, UnsignedField(parsed, "seed"));
  INGOT_ASSIGN_OR_RETURN(state.weights_checksum, base::HexField(parsed, "weights_checksum"));
  INGOT_ASSIGN_OR_RETURN(state.optimizer_steps, IntegerField(parsed, "optimizer_steps"));
  INGOT_ASSIGN_OR_RETURN(state.next_group, IntegerField(parsed, "next_group"));
  INGOT_ASSIGN_OR_RETURN(state.shards, ShardsOf(parsed));
  const json::value* files = base::Find(parsed, "files");
  if (files == nullptr) return absl::DataLossError("state.json lists no files");
  INGOT_ASSIGN_OR_RETURN(state.files, base::ParseDigests(*files));
  return state;
}

// Returns DATA_LOSS if the checkpoint's state.json is missing, incomplete, or changed.
absl::StatusOr<State> ReadState(const std::string& path) {
  const auto text = ReadSmallFile(path + "/" + kState);
  if (!text.ok()) return Damaged(path, std::string(text.status().message()));
  absl::StatusOr<State> state = StateOf(*text);
  if (!state.ok()) return Damaged(path, std::string(state.status().message()));
  return state;
}

absl::Status VerifyFiles(const std::string& path, const State& state) {
  // LoadModelDir finds the weight files through the index, which state.json also lists.
  const bool indexed = state.files.contains(model::kWeightsIndex);
  std::vector<std::string> needed = {"config.json", indexed ? model::kWeightsIndex : ShardFile(kWeights, 0, 1)};
  for (int shard = 0; shard < state.shards; ++shard) needed.push_back(ShardFile(kOptimizer, shard, state.shards));
  for (const std::string& name : needed) {
    if (!state.files.contains(name)) return Damaged(path, absl::StrCat("state.json does not list ", name));
  }
  for (const auto& [name, digest] : state.files) {
    if (!IsFileName(name)) return Damaged(path, absl::StrCat("state.json lists '", name, "'"));
  }
  const absl::Status whole =
      base::WrittenFiles(path, kState, state.files).CheckContents([](std::string_view) { return true; });
  return whole.ok() ? whole : Damaged(path, std::string(whole.message()));
}

// Returns a checkpoint's state if none of its files have changed since they were written.
absl::StatusOr<State> Verify(const std::string& path) {
  INGOT_ASSIGN_OR_RETURN(State state, ReadState(path));
  INGOT_RETURN_IF_ERROR(VerifyFiles(path, state));
  return state;
}

CheckpointInfo InfoOf(const std::string& path, const State& state) {
  return {.path = path,
          .step = state.step,
          .weights_checksum = state.weights_checksum,
          .next_group = state.next_group,
          .rejected = {}};
}

}  // namespace

std::string CheckpointName(int64_t step) {
  char name[32];
  std::snprintf(name, sizeof(name), "%s%08lld", kPrefix, static_cast<long long>(step));
  return name;
}

absl::StatusOr<CheckpointInfo> WriteCheckpoint(const std::string& root, const CheckpointContents& contents,
                                               const std::map<std::string, std::string>& extra_files, int64_t keep) {
  INGOT_RETURN_IF_ERROR(CheckExtraFiles(extra_files));
  INGOT_ASSIGN_OR_RETURN(const std::string folder, BeginCheckpoint(root, contents.step));
  std::map<std::string, at::Tensor> weights = contents.parameters.tensors();
  weights.insert(contents.mtp.begin(), contents.mtp.end());
  const absl::StatusOr<CheckpointShard> whole = WriteShard(folder, weights, contents.optimizer, 0, 1);
  if (!whole.ok()) {
    AbandonCheckpoint(root, contents.step);
    return NotWritten(whole.status(), root, contents.step);
  }
  return FinishCheckpoint(root, contents, {*whole}, extra_files, keep);
}

absl::StatusOr<std::string> BeginCheckpoint(const std::string& root, int64_t step) {
  const std::string temporary = TemporaryFolder(root, step);
  std::error_code error;
  fs::remove_all(temporary, error);
  fs::create_directories(temporary, error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot create ", temporary, ": ", error.message()));
  return temporary;
}

absl::StatusOr<CheckpointShard> WriteShard(const std::string& folder,
                                           const std::map<std::string, at::Tensor>& parameters,
                                           const std::map<std::string, at::Tensor>& optimizer, int shard, int shards) {
  CheckpointShard written;
  const auto write = [&](const std::string& file, const std::map<std::string, at::Tensor>& tensors) -> absl::Status {
    INGOT_RETURN_IF_ERROR(model::SaveSafetensors(folder + "/" + file, tensors, {{"format", "pt"}}));
    INGOT_ASSIGN_OR_RETURN(written.files[file], base::DigestFile(folder + "/" + file));
    return absl::OkStatus();
  };
  INGOT_RETURN_IF_ERROR(AtTorchEdge("checkpoint", [&]() -> absl::Status {
    for (const auto& [name, tensor] : parameters) {
      written.parameters.push_back(name);
      written.parameter_bytes += static_cast<int64_t>(tensor.nbytes());
    }
    INGOT_RETURN_IF_ERROR(write(ShardFile(kWeights, shard, shards), parameters));
    return write(ShardFile(kOptimizer, shard, shards), optimizer);
  }));
  return written;
}

void AbandonCheckpoint(const std::string& root, int64_t step) {
  std::error_code ignored;
  fs::remove_all(TemporaryFolder(root, step), ignored);
}

absl::StatusOr<CheckpointInfo> FinishCheckpoint(const std::string& root, const CheckpointContents& contents,
                                                const std::vector<CheckpointShard>& shards,
                                                const std::map<std::string, std::string>& extra_files, int64_t keep) {
  absl::Status written = CheckExtraFiles(extra_files);
  const std::string name = CheckpointName(contents.step);
  const std::string temporary = TemporaryFolder(root, contents.step);
  if (written.ok()) {
    written = AtTorchEdge("checkpoint", [&] { return WriteInto(temporary, contents, shards, extra_files); });
  }
  if (written.ok()) written = Install(root, temporary, name);
  if (!written.ok()) {
    AbandonCheckpoint(root, contents.step);
    return NotWritten(written, root, contents.step);
  }
  RemoveStale(root, contents, keep);
  return CheckpointInfo{root + "/" + name, contents.step, contents.weights_checksum, contents.next_group, {}};
}

absl::StatusOr<CheckpointInfo> VerifyCheckpoint(const std::string& path) {
  INGOT_ASSIGN_OR_RETURN(const State state, Verify(path));
  return InfoOf(path, state);
}

absl::StatusOr<CheckpointInfo> LatestCheckpoint(const std::string& root) {
  INGOT_ASSIGN_OR_RETURN(const std::vector<int64_t> steps, ListSteps(root));
  std::vector<std::string> rejected;
  for (const int64_t step : steps) {
    const std::string path = root + "/" + CheckpointName(step);
    auto info = VerifyCheckpoint(path);
    if (info.ok() && info->step != step) info = Damaged(path, absl::StrCat("state.json says step ", info->step));
    if (info.ok()) {
      info->rejected = std::move(rejected);
      return info;
    }
    INGOT_LOG(error, "{}; trying the previous checkpoint", std::string(info.status().message()));
    rejected.emplace_back(info.status().message());
  }
  if (rejected.empty()) return absl::NotFoundError(absl::StrCat("no checkpoint in ", root));
  return absl::DataLossError(absl::StrCat("no checkpoint in ", root, " is intact; the newest: ", rejected.front()));
}

absl::StatusOr<CheckpointContents> ReadCheckpoint(const std::string& path) {
  INGOT_ASSIGN_OR_RETURN(const State state, Verify(path));
  CheckpointContents contents;
  contents.step = state.step;
  contents.seed = state.seed;
  contents.weights_checksum = state.weights_checksum;
  contents.next_group = state.next_group;
  contents.optimizer_steps = state.optimizer_steps;
  contents.optimizer_shards = state.shards;
  INGOT_ASSIGN_OR_RETURN(model::ModelFolder loaded, model::LoadModelDir(path));
  contents.config = std::move(loaded.config);
  contents.parameters = std::move(loaded.parameters);
  return contents;
}

absl::StatusOr<std::map<std::string, at::Tensor>> ReadReference(const std::string& path) {
  const std::string file = absl::StrCat(path, "/", kReference);
  if (!fs::exists(file)) return absl::NotFoundError(absl::StrCat(path, " holds no ", kReference));
  return model::LoadSafetensors(file);
}

absl::StatusOr<std::map<std::string, at::Tensor>> ReadDraftState(const std::string& path) {
  const std::string file = absl::StrCat(path, "/", kDraftState);
  if (!fs::exists(file)) return absl::NotFoundError(absl::StrCat(path, " holds no ", kDraftState));
  return model::LoadSafetensors(file);
}

absl::Status ReadOptimizer(const std::string& path, int shards, const std::map<std::string, at::Tensor>& state,
                           bool all) {
  std::set<std::string> read;
  for (int shard = 0; shard < shards; ++shard) {
    const std::string file = ShardFile(kOptimizer, shard, shards);
    INGOT_ASSIGN_OR_RETURN(std::set<std::string> names, model::LoadSafetensorsInto(path + "/" + file, state));
    read.merge(names);
    if (!names.empty()) return Damaged(path, absl::StrCat(*names.begin(), " of ", file, " appears twice"));
  }
  for (const auto& [name, tensor] : state) {
    if (!read.contains(name)) return absl::InvalidArgumentError(absl::StrCat("optimizer state lacks ", name));
  }
  for (const std::string& name : read) {
    if (all && !state.contains(name)) {
      return absl::InvalidArgumentError(absl::StrCat("unknown optimizer state ", name));
    }
  }
  return absl::OkStatus();
}

}  // namespace ingot::trainer
