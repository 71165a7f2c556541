// An object store that forwards every call to another store, with a test's hooks before and after.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weights/stores/object_store.h"

namespace ingot::weights::testing {

class FaultyStore final : public ObjectStore {
 public:
  explicit FaultyStore(std::shared_ptr<ObjectStore> store) : store_(std::move(store)) {}

  absl::Status Put(const std::string& key, std::string_view bytes) override {
    if (on_put) INGOT_RETURN_IF_ERROR(on_put(key));
    INGOT_RETURN_IF_ERROR(store_->Put(key, bytes));
    if (on_stored) on_stored(key, std::ssize(bytes));
    return absl::OkStatus();
  }
  absl::StatusOr<StoredObject> Get(const std::string& key, int64_t max_bytes) override {
    return store_->Get(key, max_bytes);
  }
  absl::StatusOr<std::string> Swap(const std::string& key, std::string_view bytes, const std::string& tag) override {
    if (tag.empty() ? ignores_existing : ignores_tags) {
      INGOT_RETURN_IF_ERROR(store_->Put(key, bytes));
      INGOT_ASSIGN_OR_RETURN(const StoredObject written, store_->Get(key, int64_t{1} << 30));
      return written.tag;
    }
    absl::StatusOr<std::string> swapped = store_->Swap(key, bytes, tag);
    if (on_swapped) INGOT_RETURN_IF_ERROR(on_swapped());
    return swapped;
  }
  absl::StatusOr<std::vector<std::string>> List(const std::string& prefix) override {
    if (on_list) on_list();
    return store_->List(prefix);
  }
  absl::Status Delete(const std::string& key) override { return store_->Delete(key); }
  std::string Describe() const override { return store_->Describe(); }

  std::function<absl::Status(const std::string& key)> on_put;            // before it is done
  std::function<void(const std::string& key, int64_t bytes)> on_stored;  // after it was done
  std::function<absl::Status()> on_swapped;                              // after it was done
  std::function<void()> on_list;                                         // before it is done

  bool ignores_existing = false;  // as a server without If-None-Match
  bool ignores_tags = false;      // as a server without If-Match

 private:
  const std::shared_ptr<ObjectStore> store_;
};

}  // namespace ingot::weights::testing
