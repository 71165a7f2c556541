// A session's files, as the APIs use them: entries as plain values, and downloads in parts.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "execution/feed.h"
#include "execution/store.h"

namespace ingot::execution {

struct Entry {
  char type = 'f';  // 'f'ile, 'd'irectory, 'l'ink, 'o'ther
  uint32_t mode = 0;
  int64_t size = 0, seconds = 0, nanos = 0;  // `seconds`, `nanos`: time of the last change
  std::string owner, group, path, target;

  std::string name() const;
  std::string permissions() const;  // "-rw-r--r--"
};

// The entries of a kStat, kList or kMove answer. INVALID_ARGUMENT: the guest agent sent something else.
absl::StatusOr<std::vector<Entry>> ReadEntries(const std::string& bytes);
absl::StatusOr<std::vector<Entry>> ListFolder(Session& session, const std::string& path, uint32_t depth);
absl::StatusOr<Entry> StatFile(Session& session, const std::string& path);

// Writes a whole file, in parts.
absl::Status WriteWhole(Session& session, const std::string& path, std::string_view bytes);

// Sends a file's bytes; one part of it is in memory at a time. Blocks for the first part, and returns its error.
absl::StatusOr<std::shared_ptr<Feed>> MakeDownload(std::shared_ptr<HeldSession> held, const std::string& path,
                                                   std::function<void()> wake);

}  // namespace ingot::execution
