// The secrets that the processes of one run share, and how the supervisor passes them to its roles.
//
//   ingot launch: makes them, or reads cluster.token_file
//     `- a role: reads them once from its stdin, a socket, and puts /dev/null there before it starts anything
//   a role started by hand: cluster.token_file, or --token-fd N
//
// They are never in an argument, in the environment or, except for a user's own token_file, in a file. A socket, unlike
// a pipe, cannot be opened through /proc/PID/fd. REQUIRES: HideMemory (process.h) was called.
#pragma once

#include <string>

#include "app/run/run_config.h"
#include "base/status.h"

namespace ingot::app {

struct RunSecrets {
  std::string token;  // carried by every rpc of the run; empty = not known
  std::string
      admin_key;  // opens episodes at the gateway; empty = it is in a file of the user's, or any client may open them

  // A line for each, as ReadRunSecrets reads them.
  std::string Text() const;
};

// New secrets for a start of the run: the token of cluster.token_file, or a random one of 256 bits. INVALID_ARGUMENT:
// base::ReadSecret of that file.
absl::StatusOr<RunSecrets> MakeRunSecrets(const RunConfig& config);

// Reads the descriptor to its end, and puts /dev/null in its place, so child processes can inherit only that.
// INVALID_ARGUMENT: it is not open, or does not hold a token of 16 to 4096 bytes with an optional admin key in a second
// line. Call it before there are threads that make descriptors or processes.
absl::StatusOr<RunSecrets> ReadRunSecrets(int fd);

// The secret that the trainer's ranks begin their connections with: a digest, so that it does not reveal `token`.
// Empty for an empty token.
std::string SecretOfRanks(const std::string& token);

// The secrets that the configuration names: the token of cluster.token_file, if there is one.
absl::StatusOr<RunSecrets> FindRunSecrets(const RunConfig& config);

}  // namespace ingot::app
