#include "rollout/cache/store_roots.h"

#include <numeric>
#include <utility>
#include <vector>

namespace ingot::rollout {

StoreRootPtr StoreRoots::Of(const WeightVersion& version, KvPages* pages) {
  if (const auto known = roots_.find(version.salt); known != roots_.end()) return known->second;
  auto made = std::make_shared<StoreRoot>();
  made->version = version.weak_from_this();
  made->salt = version.salt;
  made->pages = pages;
  made->blocks_per_chunk = static_cast<size_t>(chunk_tokens_ / block_tokens_);
  made->root = {.policy_checksum = version.policy_checksum,
                .model = pages->model(),
                .numerics = pages->numerics(),
                .dtype = pages->dtype(),
                .chunk_tokens = chunk_tokens_,
                .block_tokens = block_tokens_,
                .plane_bytes = pages->block_bytes()};
  std::vector<int64_t>& bytes = made->root.plane_bytes;
  for (int64_t& plane : bytes) plane *= static_cast<int64_t>(made->blocks_per_chunk);
  made->chunk_bytes = std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
  made->key = made->root.Key();
  roots_[version.salt] = made;
  Hold();
  return made;
}

void StoreRoots::Forget() {
  if (absl::erase_if(roots_, [](const auto& entry) { return entry.second->version.expired(); }) > 0) Hold();
}

void StoreRoots::Hold() {
  std::vector<base::Key128> keys;
  for (const auto& [salt, root] : roots_) keys.push_back(root->key);
  store_.Hold(std::move(keys));
}

}  // namespace ingot::rollout
