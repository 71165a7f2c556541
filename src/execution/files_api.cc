#include "execution/files_api.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/mutex.h"

namespace ingot::execution {
namespace {

constexpr size_t kWritePart = 1 << 20;

class Download final : public Feed, public std::enable_shared_from_this<Download> {
 public:
  Download(std::shared_ptr<HeldSession> held, std::string path, std::string first, std::function<void()> wake)
      : held_(std::move(held)), path_(std::move(path)), wake_(std::move(wake)), part_(std::move(first)) {}

  http::Output Next() override {
    http::Output output;
    if (!std::exchange(begun_, true)) output.stream = http::StreamHead{.content_type = "application/octet-stream"};
    {
      base::MutexLock lock(mu_);
      if (asked_ && !part_.has_value()) return output;
      // If the file shrinks or is removed in the meantime, the response ends there.
      output.data = part_.value_or("");
      output.done = output.data.empty();
      part_.reset();
      asked_ = !output.done;
    }
    offset_ += output.data.size();
    if (!output.done) Ask();
    return output;
  }

 private:
  void Ask() {
    const FileFacts facts{.offset = offset_, .length = kFileChunk};
    held_->session->Order(FileOp::kRead, facts, path_, "", "", [weak = weak_from_this()](FileAnswer answer) {
      const auto self = weak.lock();
      if (self == nullptr) return;  // The exchange, which owns this feed, has ended.
      {
        base::MutexLock lock(self->mu_);
        self->part_ = answer.status.ok() ? std::move(answer.bytes) : std::string();
      }
      self->wake_();
    });
  }

  const std::shared_ptr<HeldSession> held_;
  const std::string path_;
  const std::function<void()> wake_;
  bool begun_ = false;  // used only on the connection's thread, like offset_
  uint64_t offset_ = 0;
  base::Mutex mu_;
  std::optional<std::string> part_ ABSL_GUARDED_BY(mu_);
  bool asked_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace

std::string Entry::name() const {
  const size_t slash = path.rfind('/');
  return path.size() == 1 || slash == std::string::npos ? path : path.substr(slash + 1);
}

std::string Entry::permissions() const {
  std::string text(1, type == 'd' ? 'd' : type == 'l' ? 'l' : '-');
  for (int bit = 8; bit >= 0; --bit) text += (mode >> bit & 1) != 0 ? "xwr"[bit % 3] : '-';
  return text;
}

absl::StatusOr<std::vector<Entry>> ReadEntries(const std::string& bytes) {
  std::vector<std::string> fields = absl::StrSplit(bytes, '\0');
  if (!fields.empty()) fields.pop_back();
  if (fields.size() % kFileFields != 0)
    return absl::InvalidArgumentError("the session's guest agent sent an invalid list of files");
  std::vector<Entry> entries;
  for (size_t i = 0; i < fields.size(); i += kFileFields) {
    Entry entry;
    entry.type = fields[i + kType].empty() ? 'o' : fields[i + kType][0];
    entry.mode = static_cast<uint32_t>(std::strtoul(fields[i + kMode].c_str(), nullptr, 8));
    if (!absl::SimpleAtoi(fields[i + kSize], &entry.size) || !absl::SimpleAtoi(fields[i + kSeconds], &entry.seconds) ||
        !absl::SimpleAtoi(fields[i + kNanos], &entry.nanos)) {
      return absl::InvalidArgumentError("the session's guest agent sent an invalid list of files");
    }
    entry.owner = std::move(fields[i + kOwner]);
    entry.group = std::move(fields[i + kGroup]);
    entry.path = std::move(fields[i + kPath]);
    entry.target = std::move(fields[i + kTarget]);
    entries.push_back(std::move(entry));
  }
  return entries;
}

absl::StatusOr<std::vector<Entry>> ListFolder(Session& session, const std::string& path, uint32_t depth) {
  const FileAnswer answer = session.Ask(FileOp::kList, {.depth = std::max(depth, 1u)}, path);
  INGOT_RETURN_IF_ERROR(answer.status);
  return ReadEntries(answer.bytes);
}

absl::StatusOr<Entry> StatFile(Session& session, const std::string& path) {
  const FileAnswer answer = session.Ask(FileOp::kStat, {}, path);
  INGOT_RETURN_IF_ERROR(answer.status);
  INGOT_ASSIGN_OR_RETURN(std::vector<Entry> entries, ReadEntries(answer.bytes));
  if (entries.size() != 1) return absl::InvalidArgumentError("the session's guest agent sent an invalid file entry");
  return std::move(entries[0]);
}

absl::Status WriteWhole(Session& session, const std::string& path, std::string_view bytes) {
  size_t done = 0;
  do {
    const std::string_view part = bytes.substr(done, kWritePart);
    INGOT_RETURN_IF_ERROR(session.Ask(FileOp::kWrite, {.offset = done}, path, "", part).status);
    done += part.size();
  } while (done < bytes.size());
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Feed>> MakeDownload(std::shared_ptr<HeldSession> held, const std::string& path,
                                                   std::function<void()> wake) {
  FileAnswer first = held->session->Ask(FileOp::kRead, {.length = kFileChunk}, path);
  INGOT_RETURN_IF_ERROR(first.status);
  return std::make_shared<Download>(std::move(held), path, std::move(first.bytes), std::move(wake));
}

}  // namespace ingot::execution
