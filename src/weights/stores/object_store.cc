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

namespace {

// Returns OK if the second writer of an object failed, as it must.
absl::Status CheckLost(const ObjectStore& store, const absl::StatusOr<std::string>& swapped, std::string_view request) {
  if (absl::IsAborted(swapped.status())) return absl::OkStatus();
  INGOT_RETURN_IF_ERROR(swapped.status());
  return absl::FailedPreconditionError(absl::StrCat(store.Describe(), ": it ignores ", base::View(request),
                                                    ", so two trainers could both make a version live. Use a server "
                                                    "with conditional PUT (docs/internals/weights.md)"));
}

// Checks that a Swap fails after another one has succeeded. Otherwise, an older trainer would not be fenced.
absl::Status CheckSwaps(ObjectStore& store, const std::string& key) {
  INGOT_ASSIGN_OR_RETURN(const std::string stale, store.Swap(key, "first", ""));
  INGOT_RETURN_IF_ERROR(CheckLost(store, store.Swap(key, "second", ""), "If-None-Match for an object that exists"));
  INGOT_RETURN_IF_ERROR(store.Swap(key, "third", stale).status());
  return CheckLost(store, store.Swap(key, "fourth", stale), "If-Match with the tag of an older object");
}

}  // namespace

absl::Status CheckStore(ObjectStore& store, const std::string& prefix) {
  const std::string key = absl::StrCat(prefix, "/checks/", base::RandomHex(16));
  INGOT_RETURN_IF_ERROR(store.Put(key, key));
  const absl::StatusOr<StoredObject> read = store.Get(key, 1 << 10);
  absl::Status deleted = store.Delete(key);
  const std::string swapped = key + "-swaps";
  const absl::Status swaps = CheckSwaps(store, swapped);
  deleted.Update(store.Delete(swapped));
  INGOT_RETURN_IF_ERROR(swaps);
  INGOT_RETURN_IF_ERROR(read.status());
  INGOT_RETURN_IF_ERROR(deleted);
  if (read->bytes == key) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(store.Describe(), ": object '", key, "' was read back with different content"));
}

}  // namespace ingot::weights
