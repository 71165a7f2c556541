#include "standin/ptx/races.h"

#include <algorithm>
#include <bit>

namespace ingot::standin::ptx {

Races::Races(size_t shared_bytes, uint32_t warps)
    : warps_(warps),
      cells_((shared_bytes + 3) / 4),
      readers_(cells_.size() * warps),
      epochs_(warps),
      seen_(warps * warps),
      full_sync_(warps),
      lane_sync_(warps) {}

void Races::BeginBlock() {
  for (const uint32_t epoch : epochs_) base_ = std::max(base_, epoch);
  std::fill(epochs_.begin(), epochs_.end(), base_ + 1);
  std::fill(full_sync_.begin(), full_sync_.end(), base_ + 1);
  std::fill(seen_.begin(), seen_.end(), base_);
  std::fill(known_.begin(), known_.end(), base_);
  for (Cell& cell : cells_) cell.pending = false;
}

Conflict Races::Access(AccessKind kind, uint32_t warp, uint32_t lane, size_t address, size_t bytes, uint32_t statement,
                       bool every_lane) {
  const Actor actor{kind, warp, lane, statement, every_lane};
  Conflict first;
  const size_t end = address + bytes;
  for (size_t word = address / 4; word * 4 < end; ++word) {
    const bool whole = word * 4 >= address && word * 4 + 4 <= end;
    if (!whole && cells_[word].split == 0) Split(word);
    const uint32_t split = cells_[word].split;
    if (split == 0) {
      const Conflict c = AccessCell(word, actor);
      if (c.kind != Conflict::Kind::kNone) first = c;
      continue;
    }
    for (size_t byte = std::max(address, word * 4); byte < std::min(end, word * 4 + 4); ++byte) {
      const Conflict c = AccessCell(split + byte % 4, actor);
      if (c.kind != Conflict::Kind::kNone) first = c;
    }
  }
  return first;
}

void Races::Split(size_t word) {
  const size_t first = cells_.size();
  cells_.resize(first + 4, cells_[word]);
  readers_.resize(cells_.size() * warps_);
  for (size_t byte = 0; byte < 4; ++byte) {
    std::copy_n(readers_.begin() + word * warps_, warps_, readers_.begin() + (first + byte) * warps_);
  }
  cells_[word].split = static_cast<uint32_t>(first);
}

Conflict Races::AccessCell(size_t index, const Actor& a) {
  Cell& cell = cells_[index];
  Conflict conflict{Conflict::Kind::kNone, cell.writer / 32u, cell.writer % 32u, cell.statement};
  if (a.kind == AccessKind::kLand) {
    cell.pending = false;
    return conflict;
  }
  if (a.kind == AccessKind::kArrive) {
    cell.pending = false;
  } else if (cell.pending) {
    conflict.kind = Conflict::Kind::kNotArrived;
  } else if (!AfterWrites(cell, a)) {
    conflict.kind = Conflict::Kind::kWrite;
  }
  if (a.kind == AccessKind::kRead) {
    Readers& readers = readers_[index * warps_ + a.warp];
    if (readers.epoch != epochs_[a.warp]) readers = {epochs_[a.warp], 0};
    readers.lanes |= a.every_lane ? kAllLanes : 1u << a.lane;
    return conflict;
  }
  if (a.kind != AccessKind::kArrive && conflict.kind == Conflict::Kind::kNone) AfterReads(index, a, conflict);
  const bool atomic = a.kind == AccessKind::kAtomic;
  if (atomic && !cell.atomic) {
    cell.plain_epoch = cell.epoch;
    cell.plain_writer = cell.writer;
  }
  cell.epoch = epochs_[a.warp];
  cell.writer = static_cast<uint16_t>(a.warp * 32 + a.lane);
  cell.statement = a.statement;
  cell.atomic = atomic;
  cell.pending = a.kind == AccessKind::kCopy;
  return conflict;
}

bool Races::LanesOrdered(uint32_t warp, uint32_t earlier, uint32_t later, uint32_t epoch) const {
  return earlier == later || epoch < full_sync_[warp] || epoch < lane_sync_[warp][later][earlier] ||
         Knows(warp, later, warp, earlier, epoch);
}

// Atomics need no order among themselves, but after plain writes.
bool Races::AfterWrites(const Cell& cell, const Actor& a) const {
  if (cell.atomic && !AfterWrite(cell.plain_epoch, cell.plain_writer, a)) return false;
  return (cell.atomic && a.kind == AccessKind::kAtomic) || AfterWrite(cell.epoch, cell.writer, a);
}

bool Races::AfterWrite(uint32_t epoch, uint16_t thread, const Actor& a) const {
  if (epoch <= base_) return true;
  const uint32_t writer = thread / 32u, lane = thread % 32u;
  if (writer != a.warp && epoch <= seen_[a.warp * warps_ + writer]) return true;
  if (a.every_lane) {
    return (writer == a.warp && epoch < full_sync_[a.warp]) || AllKnow(a.warp, writer, lane, epoch);
  }
  if (writer != a.warp) return Knows(a.warp, a.lane, writer, lane, epoch);
  return LanesOrdered(a.warp, lane, a.lane, epoch);
}

bool Races::AfterReads(size_t index, const Actor& a, Conflict& conflict) const {
  const Readers* const readers = &readers_[index * warps_];
  const uint32_t* const seen = &seen_[a.warp * warps_];
  for (uint32_t warp = 0; warp < warps_; ++warp) {
    const Readers& r = readers[warp];
    if (warp != a.warp) {
      if (r.epoch <= seen[warp] || KnowsReaders(a, warp, r)) continue;
      conflict = {Conflict::Kind::kRead, warp, static_cast<uint32_t>(std::countr_zero(r.lanes)), 0};
      return false;
    }
    if (r.epoch < full_sync_[warp]) continue;
    for (uint32_t lanes = r.lanes; lanes != 0; lanes &= lanes - 1) {
      const auto lane = static_cast<uint32_t>(std::countr_zero(lanes));
      if (LanesOrdered(warp, lane, a.lane, r.epoch)) continue;
      conflict = {Conflict::Kind::kRead, warp, lane, 0};
      return false;
    }
  }
  return true;
}

void Races::SyncLanes(uint32_t warp, uint32_t mask, bool all) {
  const uint32_t epoch = ++epochs_[warp];
  if (!known_.empty()) JoinLanes(warp, mask);
  if (all) {
    full_sync_[warp] = epoch;
    return;
  }
  auto& sync = lane_sync_[warp];
  std::array<uint32_t, kLanes> joined{};
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    for (int other = 0; other < kLanes; ++other) joined[other] = std::max(joined[other], sync[lane][other]);
    joined[lane] = epoch;
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    if (mask >> lane & 1) sync[lane] = joined;
  }
}

void Races::Arrive(uint32_t warp, Clock& barrier) {
  barrier.resize(std::max<size_t>(barrier.size(), warps_ + (known_.empty() ? 0 : threads())));
  for (uint32_t other = 0; other < warps_; ++other) {
    barrier[other] = std::max(barrier[other], other == warp ? epochs_[warp] : seen_[warp * warps_ + other]);
  }
  if (!known_.empty()) {
    JoinLanes(warp, kAllLanes);
    for (size_t i = 0; i < threads(); ++i) {
      barrier[warps_ + i] = std::max(barrier[warps_ + i], known_[warp * kLanes * threads() + i]);
    }
  }
  full_sync_[warp] = ++epochs_[warp];
}

void Races::Leave(uint32_t warp, const Clock& barrier) {
  for (uint32_t other = 0; other < warps_; ++other) {
    uint32_t& seen = seen_[warp * warps_ + other];
    seen = std::max(seen, barrier[other]);
  }
  if (barrier.size() == warps_) return;
  const Clock threads_of(barrier.begin() + warps_, barrier.end());
  for (uint32_t lane = 0; lane < kLanes; ++lane) Acquire(warp, lane, threads_of);
}

bool Races::Knows(uint32_t warp, uint32_t lane, uint32_t other_warp, uint32_t other_lane, uint32_t epoch) const {
  if (known_.empty()) return false;
  return epoch <= known_[(warp * kLanes + lane) * threads() + other_warp * kLanes + other_lane];
}

bool Races::AllKnow(uint32_t warp, uint32_t other_warp, uint32_t other_lane, uint32_t epoch) const {
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    if (!(warp == other_warp && lane == other_lane) && !Knows(warp, lane, other_warp, other_lane, epoch)) return false;
  }
  return true;
}

bool Races::KnowsReaders(const Actor& a, uint32_t warp, const Readers& readers) const {
  for (uint32_t lanes = readers.lanes; lanes != 0; lanes &= lanes - 1) {
    if (!Knows(a.warp, a.lane, warp, static_cast<uint32_t>(std::countr_zero(lanes)), readers.epoch)) return false;
  }
  return true;
}

// Lanes that meet know what any of them knows.
void Races::JoinLanes(uint32_t warp, uint32_t mask) {
  Clock joined(threads(), base_);
  const auto row = [&](uint32_t lane) { return &known_[(warp * kLanes + lane) * threads()]; };
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    for (size_t i = 0; i < threads(); ++i) joined[i] = std::max(joined[i], row(lane)[i]);
  }
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    if (mask >> lane & 1) std::copy(joined.begin(), joined.end(), row(lane));
  }
}

Races::Clock Races::Release(uint32_t warp, uint32_t lane) {
  Clock clock(threads());
  const size_t thread = warp * kLanes + lane;
  for (size_t i = 0; i < threads(); ++i) {
    const size_t other = i / kLanes;
    clock[i] = known_.empty() ? base_ : known_[thread * threads() + i];
    const uint32_t synced = std::max(full_sync_[warp], lane_sync_[warp][lane][i % kLanes]) - 1;
    clock[i] = std::max(clock[i], other == warp ? synced : seen_[warp * warps_ + other]);
  }
  clock[thread] = epochs_[warp]++;
  return clock;
}

void Races::Acquire(uint32_t warp, uint32_t lane, const Clock& clock) {
  if (known_.empty()) known_.assign(threads() * threads(), base_);
  uint32_t* const row = &known_[(warp * kLanes + lane) * threads()];
  for (size_t i = 0; i < clock.size(); ++i) row[i] = std::max(row[i], clock[i]);
}

}  // namespace ingot::standin::ptx
