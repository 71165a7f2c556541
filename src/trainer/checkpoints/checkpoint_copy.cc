#include "trainer/checkpoints/checkpoint_copy.h"

#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "base/written_files.h"

namespace ingot::trainer {
namespace {

namespace fs = std::filesystem;
namespace json = base::json;

absl::Status CopyContents(const std::string& from, const std::string& to) {
  std::ifstream file(from, std::ios::binary);
  if (!file) return absl::UnavailableError(absl::StrCat("cannot open ", from));
  return base::ReplaceFileBy(to, [&](int fd, const std::string& draft) -> absl::Status {
    std::vector<char> block(size_t{1} << 20);
    while (file.read(block.data(), std::ssize(block)) || file.gcount() > 0) {
      const std::string_view bytes(block.data(), static_cast<size_t>(file.gcount()));
      INGOT_RETURN_IF_ERROR(base::WriteAll(fd, bytes, draft));
    }
    return file.bad() ? absl::UnavailableError(absl::StrCat("cannot read ", from)) : absl::OkStatus();
  });
}

absl::Status LinkOrCopy(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::create_directories(fs::path(to).parent_path(), error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot create the folder of ", to, ": ", error.message()));
  fs::create_hard_link(from, to, error);
  if (error) INGOT_RETURN_IF_ERROR(CopyContents(from, to));
  return base::SyncDir(fs::path(to).parent_path());
}

// Returns the text of state.json with another step.
absl::StatusOr<std::string> StateAt(const std::string& from, int64_t step) {
  const std::string path = absl::StrCat(from, "/", base::kCheckpointState);
  INGOT_ASSIGN_OR_RETURN(const std::string text, base::ReadFile(path));
  INGOT_ASSIGN_OR_RETURN(const json::value parsed, base::ParseJson(text));
  if (!parsed.is_object()) return absl::DataLossError(absl::StrCat(path, " is not a JSON object"));
  json::object state = parsed.get_object();
  state["step"] = step;
  state["next_batch"] = step;
  state.erase("xxh3");  // Seal adds it again
  return base::Seal(state);
}

absl::Status WriteCopy(const std::string& from, const std::string& to, int64_t step) {
  INGOT_ASSIGN_OR_RETURN(const std::string state, StateAt(from, step));
  INGOT_ASSIGN_OR_RETURN(const base::WrittenFiles written, base::WrittenFiles::Of(from));
  for (const auto& [name, digest] : written.files()) {
    INGOT_RETURN_IF_ERROR(LinkOrCopy(absl::StrCat(from, "/", name), absl::StrCat(to, "/", name)));
  }
  INGOT_RETURN_IF_ERROR(base::WriteFileDurably(absl::StrCat(to, "/", base::kCheckpointState), state));
  return base::SyncDir(to);
}

}  // namespace

absl::StatusOr<CheckpointInfo> CopyCheckpoint(const std::string& from, const std::string& root, int64_t step) {
  INGOT_ASSIGN_OR_RETURN(CheckpointInfo info, VerifyCheckpoint(from));
  INGOT_ASSIGN_OR_RETURN(const std::string temporary, BeginCheckpoint(root, step));
  info.path = absl::StrCat(root, "/", CheckpointName(step));
  info.step = step;
  const std::string replaced = absl::StrCat(root, "/.old-", CheckpointName(step));
  absl::Status copied = WriteCopy(from, temporary, step);
  if (copied.ok()) copied = base::ReplaceFolder(temporary, info.path, replaced);
  std::error_code ignored;
  fs::remove_all(temporary, ignored);  // the replaced checkpoint, if the file system swapped the two
  fs::remove_all(replaced, ignored);
  INGOT_RETURN_IF_ERROR(base::Annotate(copied, absl::StrCat("copying checkpoint ", from, " to ", info.path)));
  return info;
}

}  // namespace ingot::trainer
