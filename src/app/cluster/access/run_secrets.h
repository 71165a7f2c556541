// Creates and reads the secrets shared by a run's processes. The supervisor passes them to its roles.
//
//   ingot launch: generates them, or reads cluster.token_file
//     `- a role: reads them once from its stdin, a socket, then replaces it with /dev/null before starting anything
//   a role started by hand: cluster.token_file, or --token-fd N
//
// Secrets never appear in arguments, the environment, or any file except the user's own token_file. Unlike a pipe, a
// socket cannot be opened through /proc/PID/fd. REQUIRES: HideMemory (process.h) was called.
#pragma once

#include <string>

#include "app/run/run_config.h"
#include "base/status.h"

namespace ingot::app {

struct RunSecrets {
  std::string token;  // sent with every rpc of the run; empty = unknown
  std::string
      admin_key;  // opens episodes at the gateway; empty = the key is in a user's file, or any client may open episodes

  // Returns one line per secret, in the format that ReadRunSecrets reads.
  std::string Text() const;
};

// Creates the secrets when a run starts. The token is read from cluster.token_file or generated with 256 random bits.
// Returns INVALID_ARGUMENT if base::ReadSecret rejects the file.
absl::StatusOr<RunSecrets> MakeRunSecrets(const RunConfig& config);

// Reads the descriptor to the end and replaces it with /dev/null, so child processes cannot inherit the secrets. The
// input is a token of 16 to 4096 bytes, followed by an optional line with the admin key. Returns INVALID_ARGUMENT if
// the input is malformed or the descriptor is not open. Call this before starting threads that create descriptors or
// processes.
absl::StatusOr<RunSecrets> ReadRunSecrets(int fd);

// Returns the secret that the trainer's ranks use to open their connections. It is a digest, so it does not reveal
// `token`. Empty for an empty token.
std::string SecretOfRanks(const std::string& token);

// Returns the configured secrets: the token in cluster.token_file, if any.
absl::StatusOr<RunSecrets> FindRunSecrets(const RunConfig& config);

}  // namespace ingot::app
