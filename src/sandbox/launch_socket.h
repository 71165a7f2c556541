// Sends messages from Ingot to the launcher program. A message is an in-memory file with a header and strings, passed
// over a socket pair. Thread safe. Functions block only until the other side reads.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "sandbox/spawn.h"

namespace ingot::sandbox {

// Returns the launcher program (launcher/main.cc), which is embedded in this binary.
absl::StatusOr<Fd> LauncherProgram();

absl::StatusOr<Fd> MemoryFile(const char* name, std::string_view content);

// Returns a header's bytes. Append strings with AddString.
template <typename Header>
std::string Parcel(const Header& header) {
  return std::string(reinterpret_cast<const char*>(&header), sizeof(header));
}

// Appends `text` and a terminating NUL.
void AddString(std::string& parcel, std::string_view text);

// Both ends of a SOCK_SEQPACKET pair.
struct SocketPair {
  Fd ours, theirs;
};
absl::StatusOr<SocketPair> MakeSocketPair();

// Sends one byte with descriptors. Returns false, with errno set, if the other end is closed.
bool SendDescriptors(int socket, const std::vector<int>& fds);

}  // namespace ingot::sandbox
