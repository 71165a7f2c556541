// What Ingot sends to the launcher program, and how: an in-memory file with a header and strings, passed over a socket
// pair. Free functions, thread safe; none blocks for longer than the other end takes to read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "sandbox/spawn.h"

namespace ingot::sandbox {

// The launcher's program (launcher/main.cc), which is embedded in this binary.
absl::StatusOr<Fd> LauncherProgram();

absl::StatusOr<Fd> MemoryFile(const char* name, std::string_view content);

// The bytes of a header, to which strings are appended (AddString).
template <typename Header>
std::string Parcel(const Header& header) {
  return std::string(reinterpret_cast<const char*>(&header), sizeof(header));
}

// Appends the text and a terminating NUL.
void AddString(std::string& parcel, std::string_view text);

// Ends of a SOCK_SEQPACKET pair.
struct SocketPair {
  Fd ours, theirs;
};
absl::StatusOr<SocketPair> MakeSocketPair();

// Sends one byte with descriptors. False: the other end is gone (errno).
bool SendDescriptors(int socket, const std::vector<int>& fds);

}  // namespace ingot::sandbox
