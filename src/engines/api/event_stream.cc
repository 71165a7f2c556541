#include "engines/api/event_stream.h"

namespace ingot::engines {
namespace {

absl::Status TooLarge() {
  return absl::DataLossError(absl::StrCat("the server sent an event of more than ", EventStream::kMostBytes, " bytes"));
}

}  // namespace

absl::Status EventStream::Push(std::string_view bytes,
                               const std::function<absl::Status(std::string_view data)>& on_event) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    if (line_.size() + std::min(end, bytes.size()) > kMostBytes) return TooLarge();
    line_ += bytes.substr(0, end);
    if (end == std::string_view::npos) return absl::OkStatus();
    bytes.remove_prefix(end + 1);
    if (line_.ends_with('\r')) line_.pop_back();
    INGOT_RETURN_IF_ERROR(OnLine(line_, on_event));
    line_.clear();
  }
  return absl::OkStatus();
}

absl::Status EventStream::OnLine(std::string_view line,
                                 const std::function<absl::Status(std::string_view data)>& on_event) {
  if (line.empty()) {
    if (data_.empty()) return absl::OkStatus();
    const absl::Status taken = on_event(data_);
    data_.clear();
    return taken;
  }
  if (!line.starts_with("data:")) return absl::OkStatus();  // a comment, an id, or an event's name
  line.remove_prefix(5);
  if (line.starts_with(' ')) line.remove_prefix(1);
  if (data_.size() + line.size() > kMostBytes) return TooLarge();
  if (!data_.empty()) data_ += '\n';
  data_ += line;
  return absl::OkStatus();
}

}  // namespace ingot::engines
