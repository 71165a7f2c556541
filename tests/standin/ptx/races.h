// Finds unordered accesses to a block's shared memory by vector clocks (Flanagan and Freund, FastTrack, PLDI 2009). A clock counts a warp's
// barriers. Two accesses to a byte, one of them a write, must be by the same lane, or have a barrier of both between them.
//
// A cell is four bytes until a part of it is accessed, then each of its bytes has a cell.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "standin/ptx/program.h"

namespace ingot::standin::ptx {

// kLand: a copy arrives whose order an mbarrier carries.
enum class AccessKind : uint8_t { kRead, kWrite, kAtomic, kCopy, kArrive, kLand };

// What an access collided with.
struct Conflict {
  enum class Kind : uint8_t { kNone, kRead, kWrite, kNotArrived };
  Kind kind = Kind::kNone;
  uint32_t warp = 0;
  uint32_t lane = 0;
  uint32_t statement = 0;  // of the earlier write
};

class Races {
 public:
  Races(size_t shared_bytes, uint32_t warps);

  // Forgets all accesses.
  void BeginBlock();

  // kCopy is a cp.async that is issued: its bytes have not arrived until an access of kArrive by the same lane. `every_lane` means that all
  // lanes of the warp read the bytes.
  Conflict Access(AccessKind kind, uint32_t warp, uint32_t lane, size_t address, size_t bytes, uint32_t statement,
                  bool every_lane);

  // All lanes of `mask` have met at a barrier of the warp.
  void SyncLanes(uint32_t warp, uint32_t mask, bool all);

  // A barrier of the block: Arrive by each warp, then Leave by those that wait.
  using Clock = std::vector<uint32_t>;
  void Arrive(uint32_t warp, Clock& barrier);
  void Leave(uint32_t warp, const Clock& barrier);

  // An arrival of one lane at an mbarrier: what it is after, itself included, as an epoch of each lane of the block.
  Clock Release(uint32_t warp, uint32_t lane);
  // The lane is after all that `clock` has.
  void Acquire(uint32_t warp, uint32_t lane, const Clock& clock);

 private:
  struct Cell {
    uint32_t epoch = 0;  // of the last write
    uint32_t statement = 0;
    uint16_t writer = 0;  // 32 * warp + lane
    bool atomic = false;
    uint16_t plain_writer = 0;  // of the last write that was no atomic, if the last one was
    uint32_t plain_epoch = 0;
    bool pending = false;
    uint32_t split = 0;  // index of the cell of its first byte; 0 = not split
  };
  struct Readers {
    uint32_t epoch = 0;
    uint32_t lanes = 0;
  };
  struct Actor {
    AccessKind kind;
    uint32_t warp, lane, statement;
    bool every_lane;
  };

  Conflict AccessCell(size_t index, const Actor& actor);
  bool AfterWrites(const Cell& cell, const Actor& actor) const;
  bool AfterWrite(uint32_t epoch, uint16_t writer, const Actor& actor) const;
  bool AfterReads(size_t index, const Actor& actor, Conflict& conflict) const;
  void JoinLanes(uint32_t warp, uint32_t mask);
  bool Knows(uint32_t warp, uint32_t lane, uint32_t other_warp, uint32_t other_lane, uint32_t epoch) const;
  bool AllKnow(uint32_t warp, uint32_t other_warp, uint32_t other_lane, uint32_t epoch) const;
  bool KnowsReaders(const Actor& actor, uint32_t warp, const Readers& readers) const;
  size_t threads() const { return size_t{warps_} * kLanes; }
  bool LanesOrdered(uint32_t warp, uint32_t earlier, uint32_t later, uint32_t epoch) const;
  void Split(size_t word);

  const uint32_t warps_;
  uint32_t base_ = 0;  // epochs up to it are of earlier blocks
  std::vector<Cell> cells_;
  std::vector<Readers> readers_;     // [cells][warps]
  std::vector<uint32_t> epochs_;     // of each warp
  std::vector<uint32_t> seen_;       // [warps][warps]: the last epoch of the second that the first is after
  std::vector<uint32_t> full_sync_;  // the first epoch after the last barrier of the whole warp
  // [warps][lane][earlier lane]: the first epoch that is not ordered before the lane.
  std::vector<std::array<std::array<uint32_t, kLanes>, kLanes>> lane_sync_;
  // [threads][threads]: the last epoch of the second that the first is after through mbarriers. Empty until one is used.
  std::vector<uint32_t> known_;
};

}  // namespace ingot::standin::ptx
