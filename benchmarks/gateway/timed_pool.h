// A data pool that reports how long each AppendCall took, also to other processes.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "datapool/client.h"

namespace ingot::bench {

// Milliseconds of the newest appends, in memory that children share.
struct Appends {
  static constexpr uint64_t kKept = 1 << 20;
  std::atomic<uint64_t> count{0};
  std::atomic<float> milliseconds[kKept];

  // Lives as long as the program.
  static Appends* Shared() {
    void* memory = mmap(nullptr, sizeof(Appends), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? nullptr : static_cast<Appends*>(memory);
  }
  void Add(float value) { milliseconds[count++ % kKept] = value; }
  std::vector<float> Since(uint64_t first) const {
    const uint64_t last = count;
    std::vector<float> values;
    for (uint64_t i = std::max(first, last - std::min(last, kKept)); i < last; ++i)
      values.push_back(milliseconds[i % kKept]);
    return values;
  }
};

class TimedPool final : public datapool::Client {
 public:
  TimedPool(std::unique_ptr<datapool::Client> pool, Appends* appends) : pool_(std::move(pool)), appends_(appends) {}

  absl::Status AppendCall(const v1::AppendCallRequest& request) override {
    const auto start = std::chrono::steady_clock::now();
    absl::Status status = pool_->AppendCall(request);
    appends_->Add(std::chrono::duration<float, std::milli>(std::chrono::steady_clock::now() - start).count());
    return status;
  }
  absl::Status StoreEpisode(const v1::StoreEpisodeRequest& request) override { return pool_->StoreEpisode(request); }
  absl::Status StoreReward(const v1::StoreRewardRequest& request) override { return pool_->StoreReward(request); }
  absl::Status StoreEnd(const v1::StoreEndRequest& request) override { return pool_->StoreEnd(request); }
  absl::Status StoreGrades(const v1::StoreGradesRequest& request) override { return pool_->StoreGrades(request); }
  absl::StatusOr<v1::EpisodeTree> GetEpisode(const v1::GetEpisodeRequest& request) override {
    return pool_->GetEpisode(request);
  }
  absl::StatusOr<v1::Group> GetGroup(const v1::GetGroupRequest& request) override { return pool_->GetGroup(request); }
  absl::StatusOr<v1::ListEpisodesResponse> ListEpisodes(const v1::ListEpisodesRequest& request) override {
    return pool_->ListEpisodes(request);
  }
  absl::StatusOr<int64_t> AppendJournal(const v1::AppendJournalRequest& request) override {
    return pool_->AppendJournal(request);
  }
  absl::StatusOr<v1::ReadJournalResponse> ReadJournal(const v1::ReadJournalRequest& request) override {
    return pool_->ReadJournal(request);
  }
  absl::StatusOr<v1::TrimResponse> Trim(const v1::TrimRequest& request) override { return pool_->Trim(request); }
  absl::StatusOr<v1::PoolStatusResponse> Status() override { return pool_->Status(); }

 private:
  const std::unique_ptr<datapool::Client> pool_;
  Appends* const appends_;
};

}  // namespace ingot::bench
