#include "standin/ptx/block.h"

#include <algorithm>
#include <bit>

namespace ingot::standin::ptx {
namespace {

// Instructions that a warp runs before another one may. Only a kernel that waits for another warp by reading memory in a loop gets there.
constexpr uint64_t kTurn = 100'000;
constexpr uint32_t kIdleRounds = 10'000;
constexpr size_t kAlignment = 64;

uint32_t Threads(Dim3 d) { return d.x * d.y * d.z; }

std::byte* Aligned(std::vector<std::byte>& memory) {
  const auto at = reinterpret_cast<uintptr_t>(memory.data());
  return memory.data() + (kAlignment - at % kAlignment) % kAlignment;
}

}  // namespace

Block::Block(LaunchState& launch)
    : launch_(launch),
      threads_(Threads(launch.launch.block)),
      shared_bytes_(launch.launch.dynamic_shared_bytes == 0
                        ? launch.program.static_shared_bytes
                        : launch.program.dynamic_shared_at + launch.launch.dynamic_shared_bytes) {
  const Program& program = launch.program;
  const uint32_t warps = (threads_ + kLanes - 1) / kLanes;
  const size_t local = (program.local_bytes + 15) / 16 * 16 * kLanes;
  registers_.resize(program.register_bytes * warps + kAlignment);
  local_.resize(local * warps + kAlignment);
  shared_.resize(shared_bytes_ + kAlignment);
  for (uint32_t w = 0; w < warps; ++w) {
    warps_.push_back(std::make_unique<Warp>(*this, w, Aligned(registers_) + w * program.register_bytes,
                                            Aligned(local_) + w * local));
    order_.push_back(warps_.back().get());
  }
  at_barrier_.resize(warps);
  if (launch.options.check_races) races_ = std::make_unique<Races>(shared_bytes_, warps);
}

void Block::Run(Dim3 at, uint32_t index) {
  index_ = index;
  at_ = at;
  random_.seed(launch_.options.seed * 1'000'003 + index);
  // All ones are not-a-number in every floating-point type.
  std::fill(shared_.begin(), shared_.end(), std::byte{0xff});
  std::fill(local_.begin(), local_.end(), std::byte{0xff});
  if (races_ != nullptr) races_->BeginBlock();
  for (BarrierState& barrier : barriers_) barrier = {};
  mbarriers_.Clear();
  seen_changes_ = idle_rounds_ = 0;
  std::fill(at_barrier_.begin(), at_barrier_.end(), false);
  for (uint32_t w = 0; w < warps_.size(); ++w) {
    const uint32_t lanes = std::min<uint32_t>(kLanes, threads_ - w * kLanes);
    warps_[w]->Start(lanes == kLanes ? kAllLanes : (1u << lanes) - 1);
    FillSpecials(*warps_[w], at);
  }
  while (RunReady() || CompleteWithoutEnded()) {
  }
  ReportDeadlock();
}

void Block::FillSpecials(Warp& warp, Dim3 at) {
  const Dim3 n = launch_.launch.block, grid = launch_.launch.grid;
  const auto put = [&warp](Special special, int lane, uint32_t value) {
    warp.Out<uint32_t>({static_cast<size_t>(special) * kSpecialBytes, ~uintptr_t{0}})[lane] = value;
  };
  const auto warps = static_cast<uint32_t>(warps_.size());
  const auto dynamic = static_cast<uint32_t>(launch_.launch.dynamic_shared_bytes);
  for (int lane = 0; lane < kLanes; ++lane) {
    const uint32_t thread = warp.index() * kLanes + lane, bit = 1u << lane;
    const uint32_t values[] = {thread % n.x,
                               thread / n.x % n.y,
                               thread / n.x / n.y,
                               n.x,
                               n.y,
                               n.z,
                               at.x,
                               at.y,
                               at.z,
                               grid.x,
                               grid.y,
                               grid.z,
                               static_cast<uint32_t>(lane),
                               warp.index(),
                               warps,
                               0,
                               1,
                               bit,
                               bit - 1,
                               bit | (bit - 1),
                               ~(bit | (bit - 1)),
                               ~(bit - 1),
                               dynamic,
                               static_cast<uint32_t>(shared_bytes_),
                               0};
    static_assert(std::size(values) == static_cast<size_t>(Special::kCount));
    for (size_t i = 0; i < std::size(values); ++i) put(static_cast<Special>(i), lane, values[i]);
  }
}

// Gives every warp that is ready a turn. Returns false if there was none.
bool Block::RunReady() {
  bool any = false, idle = true;
  if (launch_.options.seed != 0) std::shuffle(order_.begin(), order_.end(), random_);
  for (Warp* const warp : order_) {
    if (warp->state() != Warp::State::kReady) continue;
    any = true;
    const uint64_t before = warp->instructions();
    const uint64_t limit = launch_.options.block_instructions;
    warp->Run(limit == 0 ? kTurn : std::min(kTurn, limit));
    launch_.outcome.counters.instructions += warp->instructions() - before;
    idle &= warp->yielded();
    AfterRun(*warp);
    if (limit != 0 && warp->instructions() > limit && warp->state() == Warp::State::kReady) {
      warp->Fault("endless", -1,
                  "the warp has run " + std::to_string(warp->instructions()) + " instructions in this launch");
      throw EndLaunch();
    }
  }
  if (any) CheckIdle(idle);
  return any;
}

// Warps that wait for an mbarrier read it in a loop. If nothing else runs for a while, nobody will arrive.
void Block::CheckIdle(bool idle) {
  idle_rounds_ = idle && mbarriers_.changes() == seen_changes_ ? idle_rounds_ + 1 : 0;
  seen_changes_ = mbarriers_.changes();
  if (idle_rounds_ < kIdleRounds) return;
  for (const Warp* const warp : order_) {
    if (warp->state() != Warp::State::kReady) continue;
    launch_.Report("deadlock", warp->statement(), Where(*warp, -1), "nobody arrives at the mbarrier");
    throw EndLaunch();
  }
}

void Block::AfterRun(Warp& warp) {
  uint32_t id = 0, expected = 0;
  if (at_barrier_[warp.index()] || !warp.WaitsForBlock(id, expected)) return;
  at_barrier_[warp.index()] = true;
  BarrierState& barrier = barriers_[id];
  barrier.waiting.push_back(&warp);
  AddArrival(barrier, warp, expected);
}

void Block::Arrive(Warp& warp, uint32_t id, uint32_t expected_warps) {
  AddArrival(barriers_[id], warp, expected_warps);
}

void Block::AddArrival(BarrierState& barrier, Warp& warp, uint32_t expected_warps) {
  const uint32_t expected = Expected(expected_warps);
  if (barrier.arrived != 0 && barrier.expected != expected) {
    warp.Fault("barrier", -1, "warps expect different numbers of threads at this barrier");
  }
  barrier.expected = expected;
  if (races_ != nullptr) races_->Arrive(warp.index(), barrier.clock);
  if (++barrier.arrived == expected) Complete(barrier);
}

void Block::Complete(BarrierState& barrier) {
  FinishReductions(barrier);
  for (Warp* const warp : barrier.waiting) {
    if (races_ != nullptr) races_->Leave(warp->index(), barrier.clock);
    at_barrier_[warp->index()] = false;
    warp->Release();
  }
  barrier = {};
}

void Block::Reduce(Warp& warp, const Instruction& in, uint32_t id, uint32_t predicate, uint32_t lanes) {
  BarrierState& barrier = barriers_[id];
  barrier.reductions.push_back({&warp, &in, lanes});
  barrier.holds += static_cast<uint32_t>(std::popcount(predicate & lanes));
  barrier.asked += static_cast<uint32_t>(std::popcount(lanes));
}

// in.immediate: 0 = and, 1 = or, 2 = the number of lanes.
void Block::FinishReductions(BarrierState& barrier) {
  for (const Reduction& r : barrier.reductions) {
    if (r.in->immediate == 2) {
      uint32_t* const to = r.warp->Out<uint32_t>(r.in->d);
      for (int lane = 0; lane < kLanes; ++lane) {
        if (r.lanes >> lane & 1) to[lane] = barrier.holds;
      }
      continue;
    }
    const bool holds = r.in->immediate == 0 ? barrier.holds == barrier.asked : barrier.holds != 0;
    r.warp->SetPredicate(r.in->d, holds ? kAllLanes : 0, r.lanes);
  }
}

// A card lets a barrier complete when the threads that have not ended are there. PTX does not promise it.
bool Block::CompleteWithoutEnded() {
  uint32_t ended = 0;
  for (const auto& warp : warps_) ended += warp->state() == Warp::State::kDone;
  for (BarrierState& barrier : barriers_) {
    if (barrier.waiting.empty() || barrier.arrived + ended < barrier.expected) continue;
    const Warp& warp = *barrier.waiting[0];
    launch_.Report("partial block", warp.WaitingStatement(), Where(warp, -1),
                   "only " + std::to_string(barrier.arrived) + " of " + std::to_string(barrier.expected) +
                       " warps reach the barrier, the others have ended");
    Complete(barrier);
    return true;
  }
  return false;
}

void Block::ReportDeadlock() {
  std::string waiting;
  const Warp* first = nullptr;
  for (const auto& warp : warps_) {
    if (warp->state() != Warp::State::kWaiting) continue;
    if (first == nullptr) first = warp.get();
    waiting += (waiting.empty() ? "" : ", ") + std::to_string(warp->index()) + " at line " +
               std::to_string(launch_.program.statements[warp->WaitingStatement()]->line);
  }
  if (first == nullptr) return;
  launch_.Report("deadlock", first->WaitingStatement(), Where(*first, -1), "nobody else comes; warps wait: " + waiting);
  throw EndLaunch();
}

std::string Block::Where(const Warp& warp, int lane) const {
  return "block (" + std::to_string(at_.x) + ", " + std::to_string(at_.y) + ", " + std::to_string(at_.z) + "), warp " +
         std::to_string(warp.index()) + (lane < 0 ? "" : ", lane " + std::to_string(lane));
}

}  // namespace ingot::standin::ptx
