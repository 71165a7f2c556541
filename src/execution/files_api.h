// Accesses a session's files for the APIs. Returns entries as plain values, and downloads in parts.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "execution/feed.h"
#include "execution/store.h"

namespace ingot::execution {

struct Entry {
  char type = 'f';  // 'f' = file, 'd' = directory, 'l' = link, 'o' = other
  uint32_t mode = 0;
  int64_t size = 0, seconds = 0, nanos = 0;  // `seconds`, `nanos`: last modification time
  std::string owner, group, path, target;

  std::string name() const;
  std::string permissions() const;  // such as "-rw-r--r--"
};

// Parses the entries in a kStat, kList, or kMove response. Returns INVALID_ARGUMENT if the guest agent sent anything
// else.
absl::StatusOr<std::vector<Entry>> ReadEntries(const std::string& bytes);
absl::StatusOr<std::vector<Entry>> ListFolder(Session& session, const std::string& path, uint32_t depth);
absl::StatusOr<Entry> StatFile(Session& session, const std::string& path);

// Writes a complete file in parts.
absl::Status WriteWhole(Session& session, const std::string& path, std::string_view bytes);

// Streams a file's bytes, with one part in memory at a time. Blocks until the first part is available, and returns its
// error.
absl::StatusOr<std::shared_ptr<Feed>> MakeDownload(std::shared_ptr<HeldSession> held, const std::string& path,
                                                   std::function<void()> wake);

}  // namespace ingot::execution
