// Runs the warps of one block in an order by a seed: its shared memory, its barriers and the checks of both.
#pragma once

#include <memory>
#include <random>

#include "standin/ptx/launch.h"
#include "standin/ptx/mbarrier.h"
#include "standin/ptx/races.h"
#include "standin/ptx/warp.h"

namespace ingot::standin::ptx {

class Block {
 public:
  explicit Block(LaunchState& launch);

  void Run(Dim3 at, uint32_t index);

  // For the instructions of its warps.
  LaunchState& launch() { return launch_; }
  uint32_t index() const { return index_; }
  std::byte* shared() { return shared_.data(); }
  size_t shared_bytes() const { return shared_bytes_; }
  Races* races() { return races_.get(); }  // null if they are not checked
  MBarriers& mbarriers() { return mbarriers_; }
  std::mt19937_64& random() { return random_; }
  std::string Where(const Warp& warp, int lane) const;

  // Of `warp`, which does not wait. `expected_warps` = 0: all of the block.
  void Arrive(Warp& warp, uint32_t id, uint32_t expected_warps);
  // When the barrier `id` completes, gives `lanes` the reduction of everybody's `predicate` (bar.red).
  void Reduce(Warp& warp, const Instruction& in, uint32_t id, uint32_t predicate, uint32_t lanes);

 private:
  struct Reduction {
    Warp* warp;
    const Instruction* in;
    uint32_t lanes;
  };
  struct BarrierState {
    std::vector<Warp*> waiting;
    uint32_t arrived = 0, expected = 0;  // warps
    Races::Clock clock;
    std::vector<Reduction> reductions;
    uint32_t holds = 0, asked = 0;  // lanes
  };

  void Fill(Dim3 at);
  void FillSpecials(Warp& warp, Dim3 at);
  bool RunReady();
  void CheckIdle(bool idle);
  void AfterRun(Warp& warp);
  void AddArrival(BarrierState& barrier, Warp& warp, uint32_t expected_warps);
  void Complete(BarrierState& barrier);
  void FinishReductions(BarrierState& barrier);
  bool CompleteWithoutEnded();
  void ReportDeadlock();
  uint32_t Expected(uint32_t warps) const { return warps == 0 ? static_cast<uint32_t>(warps_.size()) : warps; }

  static constexpr uint32_t kBarriers = 16;

  LaunchState& launch_;
  const uint32_t threads_;
  const size_t shared_bytes_;
  std::vector<std::byte> registers_, local_, shared_;
  std::vector<std::unique_ptr<Warp>> warps_;
  std::unique_ptr<Races> races_;
  MBarriers mbarriers_;
  uint64_t seen_changes_ = 0;  // of mbarriers_, when a round of failing waits began
  uint32_t idle_rounds_ = 0;   // in which nothing but failing waits has run
  std::array<BarrierState, kBarriers> barriers_;
  std::vector<Warp*> order_;
  std::vector<bool> at_barrier_;  // of each warp: its arrival is counted
  std::mt19937_64 random_;
  Dim3 at_;
  uint32_t index_ = 0;
};

}  // namespace ingot::standin::ptx
