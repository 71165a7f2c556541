// Identifies the users who opted in to training by their API keys (learn.users_file).
//
//   # NAME KEY
//   alice 5f0c...
//   bob   9d41...
#pragma once

#include <map>
#include <string>

#include "base/status.h"

namespace ingot::app {

// Immutable. Stores only hashes of the keys.
class Users {
 public:
  // Reads the file, which only its owner may be able to read. Empty lines and lines that start with # are ignored.
  // Returns INVALID_ARGUMENT, naming the line but never a key, if a name has characters other than [A-Za-z0-9._-], a
  // key is not a secret (base/secret.h), a name or key appears twice, or there are no users.
  static absl::StatusOr<Users> Read(const std::string& path);

  // Returns the name of the user with this key; empty = no user has it.
  std::string NameOf(const std::string& key) const;
  size_t size() const { return names_.size(); }

 private:
  absl::Status Add(const std::string& name, const std::string& key);

  std::map<std::string, std::string> names_;  // by the key's hash
};

}  // namespace ingot::app
