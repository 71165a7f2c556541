#include "weights/stores/object_store.h"

#include "absl/strings/str_split.h"
#include "base/random.h"

namespace ingot::weights {

bool IsObjectKey(std::string_view key) {
  if (key.size() > 900) return false;
  for (const absl::string_view word : absl::StrSplit(base::View(key), '/')) {
    if (word.empty() || word.front() == '.') return false;
    for (const char c : word) {
      const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
      if (!plain && c != '.' && c != '_' && c != '-') return false;
    }
  }
  return true;
}

absl::Status CheckStore(ObjectStore& store, const std::string& prefix) {
  const std::string key = absl::StrCat(prefix, "/checks/", base::RandomHex(16));
  INGOT_RETURN_IF_ERROR(store.Put(key, key));
  const absl::StatusOr<StoredObject> read = store.Get(key, 1 << 10);
  const absl::Status deleted = store.Delete(key);
  INGOT_RETURN_IF_ERROR(read.status());
  INGOT_RETURN_IF_ERROR(deleted);
  if (read->bytes == key) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(store.Describe(), ": object '", key, "' was read back with different content"));
}

}  // namespace ingot::weights
