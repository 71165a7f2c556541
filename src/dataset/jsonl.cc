#include "dataset/jsonl.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "base/big_integer.h"
#include "base/open_file.h"
#include "base/printable.h"

namespace ingot::dataset {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr size_t kChunkBytes = 1 << 16;

class LineReader {
 public:
  LineReader(const std::string& path, const JsonlOptions& options, const LineFn& line)
      : path_(path), options_(options), line_(line) {}

  // Processes the next bytes of the file.
  absl::Status Push(std::string_view bytes) {
    while (!bytes.empty()) {
      const size_t end = bytes.find('\n');
      const std::string_view part = bytes.substr(0, end);
      if (held_.size() + part.size() > static_cast<size_t>(options_.max_line_bytes)) {
        return At(absl::InvalidArgumentError(
            absl::StrCat("the line is longer than the limit of ", options_.max_line_bytes, " bytes: split it")));
      }
      held_ += part;
      if (end == std::string_view::npos) break;
      INGOT_RETURN_IF_ERROR(EndLine());
      bytes.remove_prefix(end + 1);
    }
    return absl::OkStatus();
  }

  absl::Status Finish() { return held_.empty() ? absl::OkStatus() : EndLine(); }

 private:
  absl::Status At(const absl::Status& status) const {
    if (status.ok()) return status;
    const std::string what = base::CutMessage({status.message().data(), status.message().size()});
    return absl::Status(status.code(), absl::StrCat(path_, ":", number_, ": ", what));
  }

  absl::Status EndLine() {
    std::string_view text = held_;
    if (number_ == 1 && text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
    if (text.ends_with('\r')) text.remove_suffix(1);
    if (text.find_first_not_of(" \t\r") != std::string_view::npos) {
      const auto value = base::ParseJsonExactly(text);
      if (!value.ok()) return At(value.status());
      if (!value->is_object()) return At(absl::InvalidArgumentError("the line must be a JSON object"));
      INGOT_RETURN_IF_ERROR(At(line_(number_, text, *value)));
    }
    held_.clear();
    if (++number_ > options_.max_lines + 1) {
      return absl::InvalidArgumentError(absl::StrCat(path_, ": has more than ", options_.max_lines, " lines"));
    }
    return absl::OkStatus();
  }

  const std::string& path_;
  const JsonlOptions& options_;
  const LineFn& line_;
  std::string held_;  // the line so far
  int64_t number_ = 1;
};

}  // namespace

absl::Status JsonlOptions::Validate() const {
  if (max_line_bytes < 1) return absl::InvalidArgumentError("max_line_bytes must be at least 1");
  if (max_lines < 1) return absl::InvalidArgumentError("max_lines must be at least 1");
  return absl::OkStatus();
}

absl::Status ReadJsonl(const std::string& path, const JsonlOptions& options, const LineFn& line) {
  INGOT_RETURN_IF_ERROR(options.Validate());
  const auto file = base::OpenToRead(path);
  if (absl::IsNotFound(file.status())) return absl::NotFoundError(absl::StrCat(path, " does not exist"));
  INGOT_RETURN_IF_ERROR(file.status());
  LineReader reader(path, options, line);
  std::vector<char> chunk(kChunkBytes);
  while (true) {
    const ssize_t got = read(file->get(), chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::UnavailableError(absl::StrCat("cannot read ", path, ": ", std::strerror(errno)));
    if (got == 0) return reader.Finish();
    INGOT_RETURN_IF_ERROR(reader.Push(std::string_view(chunk.data(), static_cast<size_t>(got))));
  }
}

}  // namespace ingot::dataset
