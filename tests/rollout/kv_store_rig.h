// Engines on the model of plain code (fake_model.h) that share a KV store, and stores with faults.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kv/file_store.h"
#include "rollout/rig.h"

namespace ingot::rollout {

// A temporary folder for a store.
class StoreFolder {
 public:
  StoreFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "ingot_kv_XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~StoreFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  const std::string& path() const { return path_; }
  std::vector<std::string> Chunks() const {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path_ + "/roots")) {
      if (entry.path().extension() == ".kv") files.push_back(entry.path().string());
    }
    return files;
  }

 private:
  std::string path_;
};

inline EngineOptions StoreOptions(const StoreFolder& folder) {
  EngineOptions options = Options();
  options.kv_store.path = folder.path();
  options.kv_store.chunk_tokens = 8;
  return options;
}

inline std::shared_ptr<kv::Store> OpenStore(const EngineOptions& options) {
  return kv::FileStore::Open(options.kv_store).value();
}

// An engine at version 1 with a store.
inline std::unique_ptr<Rig> StoreRig(const EngineOptions& options, std::shared_ptr<kv::Store> store,
                                     std::shared_ptr<const weights::Snapshot> initial = FakeSnapshot(1, 1001)) {
  return std::make_unique<Rig>(options, std::move(initial), std::vector<int32_t>{}, base::Clock::Real(),
                               std::vector<std::unique_ptr<Drafter>>{}, true, std::move(store));
}
inline std::unique_ptr<Rig> StoreRig(const EngineOptions& options) { return StoreRig(options, OpenStore(options)); }

inline std::vector<int32_t> LongPrompt(size_t length, int32_t first = 0) {
  std::vector<int32_t> prompt(length);
  for (size_t i = 0; i < length; ++i) prompt[i] = static_cast<int32_t>((first + 7 * i + i * i / 5) % kVocab);
  return prompt;
}

struct Answer {
  std::vector<int32_t> ids;
  std::vector<float> logprobs;
  int32_t cached = 0;
  bool operator==(const Answer& other) const { return ids == other.ids && logprobs == other.logprobs; }
};

inline Answer AnswerOf(Client& engine, const v1::GenerateRequest& request) {
  Collect result;
  const auto handle = engine.Generate(request, result.OnChunk());
  EXPECT_TRUE(result.Wait().ok());
  return {result.ids, result.logprobs, result.last.cached_tokens()};
}

inline v1::KvStoreStatus StoreStatus(Engine& engine) { return engine.Status()->kv_store(); }

// Waits for something that other threads do.
template <typename Condition>
void AwaitTrue(const Condition& condition) {
  for (int i = 0; i < 6000 && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(condition());
}

// Waits until the engine has written so many chunks.
inline void AwaitPuts(Engine& engine, int64_t chunks) {
  AwaitTrue([&] { return StoreStatus(engine).put_chunks() >= chunks; });
}

}  // namespace ingot::rollout
