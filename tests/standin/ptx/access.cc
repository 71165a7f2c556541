#include "standin/ptx/access.h"

#include <algorithm>
#include <bit>
#include <cstdio>

#include "standin/ptx/block.h"
#include "standin/ptx/counters.h"
#include "standin/ptx/lanes.h"
#include "standin/ptx/windows.h"

namespace ingot::standin::ptx {
namespace {

constexpr std::string_view kSpaceNames[] = {"generic", "global", "const", "shared", "local", "parameter", "register"};

std::string Hex(uint64_t x) {
  char text[32];
  std::snprintf(text, sizeof(text), "0x%llx", static_cast<unsigned long long>(x));
  return text;
}

std::string Describe(const Access& access, uint64_t address) {
  return std::to_string(access.bytes) + " bytes at " + std::string(kSpaceNames[static_cast<size_t>(access.space)]) +
         " address " + Hex(address);
}

uint32_t OutOfBounds(Warp& w, const Access& access, int lane, uint64_t address) {
  const bool shared = access.space == Space::kShared;
  w.Fault("bounds", lane,
          Describe(access, address) +
              (shared ? ", of " + std::to_string(w.block().shared_bytes()) + " bytes of shared memory"
                      : ", which hold nothing"));
  return 1u << lane;
}

// A space that is one piece of memory, such as shared memory.
uint32_t LocateIn(Warp& w, const Access& access, uint32_t lanes, Places& p, std::byte* base, size_t size,
                  size_t stride) {
  uint32_t lost = 0;
  ForLanes(lanes, [&](int lane) {
    const uint64_t address = p.addresses[lane];
    if (address > size || size - address < access.bytes) {
      lost |= OutOfBounds(w, access, lane, address);
    } else {
      p.at[lane] = base + lane * stride + address;
    }
  });
  return lanes & ~lost;
}

// One look-up serves all lanes if one allocation holds all that they access.
uint32_t LocateGlobal(Warp& w, const Access& access, uint32_t lanes, Places& p) {
  uint64_t least = ~uint64_t{0}, greatest = 0;
  ForLanes(lanes, [&](int lane) {
    least = std::min(least, p.addresses[lane]);
    greatest = std::max(greatest, p.addresses[lane]);
  });
  Memory& memory = w.block().launch().memory;
  const uint64_t span = greatest - least + access.bytes;
  std::byte* const base = span > greatest - least ? memory.At(least, span) : nullptr;
  uint32_t lost = 0;
  ForLanes(lanes, [&](int lane) {
    p.at[lane] = base != nullptr ? base + (p.addresses[lane] - least) : memory.At(p.addresses[lane], access.bytes);
    if (p.at[lane] == nullptr) lost |= OutOfBounds(w, access, lane, p.addresses[lane]);
  });
  return lanes & ~lost;
}

uint32_t CheckAlignment(Warp& w, const Access& access, uint32_t lanes, const Places& p) {
  uint64_t all = 0;
  ForLanes(lanes, [&](int lane) { all |= p.addresses[lane]; });
  if ((all & (access.bytes - 1)) == 0) return lanes;
  uint32_t lost = 0;
  ForLanes(lanes, [&](int lane) {
    if ((p.addresses[lane] & (access.bytes - 1)) == 0) return;
    lost |= 1u << lane;
    w.Fault("alignment", lane, Describe(access, p.addresses[lane]));
  });
  return lanes & ~lost;
}

void ReportConflict(Warp& w, const Access& access, int lane, uint64_t address, const Conflict& c) {
  const std::string other = "warp " + std::to_string(c.warp) + ", lane " + std::to_string(c.lane);
  const std::string where = Describe(access, address);
  const auto& statements = w.block().launch().program.statements;
  const std::string line =
      c.statement < statements.size() ? " at line " + std::to_string(statements[c.statement]->line) : "";
  if (c.kind == Conflict::Kind::kNotArrived) {
    w.Fault("not arrived", lane,
            where + " are the target of a cp.async by " + other + line + ", which has not been waited for");
  } else {
    const char* const did = c.kind == Conflict::Kind::kRead ? " read" : " wrote";
    w.Fault("race", lane,
            where + ", which " + other + did + (c.kind == Conflict::Kind::kRead ? "" : line) +
                ", without a barrier between");
  }
}

void CheckRaces(Warp& w, const Access& access, uint32_t lanes, const Places& p) {
  Races* const races = w.block().races();
  ForLanes(lanes, [&](int lane) {
    const Conflict c =
        races->Access(access.kind, w.index(), lane, p.addresses[lane], access.bytes, w.statement(), access.every_lane);
    if (c.kind != Conflict::Kind::kNone) ReportConflict(w, access, lane, p.addresses[lane], c);
  });
}

void CheckOutput(Warp& w, const Access& access, uint32_t lanes, const Places& p) {
  LaunchState& launch = w.block().launch();
  ForLanes(lanes, [&](int lane) {
    const int64_t other = launch.owners.Write(p.addresses[lane], access.bytes, w.block().index());
    if (other < 0) return;
    w.Fault("two blocks", lane,
            Describe(access, p.addresses[lane]) + ", which block number " + std::to_string(other) +
                " wrote in this launch");
  });
}

uint32_t LocateShared(Warp& w, const Access& access, uint32_t lanes, Places& p) {
  Block& block = w.block();
  lanes = LocateIn(w, access, lanes, p, block.shared(), block.shared_bytes(), 0);
  if (lanes == 0) return 0;
  if (block.launch().options.count_memory && access.kind != AccessKind::kArrive) {
    CountShared(block.launch().outcome.counters, p.addresses, lanes, access.bytes);
  }
  if (block.races() != nullptr) CheckRaces(w, access, lanes, p);
  return lanes;
}

uint32_t LocateDevice(Warp& w, const Access& access, uint32_t lanes, Places& p) {
  LaunchState& launch = w.block().launch();
  lanes = LocateGlobal(w, access, lanes, p);
  if (lanes == 0) return 0;
  if (launch.options.count_memory) CountGlobal(launch.outcome.counters, p.addresses, lanes, access.bytes);
  if (access.output && launch.options.check_races) CheckOutput(w, access, lanes, p);
  return lanes;
}

uint32_t LocateSpace(Warp& w, const Access& access, uint32_t lanes, Places& p) {
  LaunchState& launch = w.block().launch();
  lanes = CheckAlignment(w, access, lanes, p);
  if (lanes == 0) return 0;
  switch (access.space) {
    case Space::kShared:
      return LocateShared(w, access, lanes, p);
    case Space::kLocal: {
      const size_t bytes = launch.program.local_bytes;
      return LocateIn(w, access, lanes, p, w.local(), bytes, (bytes + 15) / 16 * 16);
    }
    case Space::kParam: {
      auto* const base = const_cast<std::byte*>(launch.parameters.data());
      if (access.kind != AccessKind::kRead) w.Fault("bounds", -1, "a kernel's parameters are written");
      return access.kind == AccessKind::kRead ? LocateIn(w, access, lanes, p, base, launch.program.parameter_bytes, 0)
                                              : 0;
    }
    default:
      return LocateDevice(w, access, lanes, p);
  }
}

}  // namespace

void Addresses(const Warp& w, const Instruction& in, uint32_t lanes, std::array<uint64_t, kLanes>& addresses) {
  if (in.flag) {
    const uint32_t* const a = w.In<uint32_t>(in.a);
    // 32-bit addresses wrap around only where a space has 32 bits.
    for (int i = 0; i < kLanes; ++i) addresses[i] = static_cast<uint32_t>(a[i] + static_cast<uint32_t>(in.immediate));
    return;
  }
  (void)lanes;
  const uint64_t* const a = w.In<uint64_t>(in.a);
  for (int i = 0; i < kLanes; ++i) addresses[i] = a[i] + static_cast<uint64_t>(in.immediate);
}

uint32_t Locate(Warp& w, const Access& access, uint32_t lanes, Places& p) {
  if (access.space != Space::kGeneric) return LocateSpace(w, access, lanes, p);
  uint32_t found = 0;
  while (lanes != 0) {  // once per space that the lanes' addresses are in
    const Space space = SpaceOf(p.addresses[std::countr_zero(lanes)]);
    uint32_t same = 0;
    ForLanes(lanes, [&](int lane) { same |= static_cast<uint32_t>(SpaceOf(p.addresses[lane]) == space) << lane; });
    ForLanes(same, [&](int lane) { p.addresses[lane] -= WindowOf(space); });
    Access one = access;
    one.space = space;
    found |= LocateSpace(w, one, same, p);
    lanes &= ~same;
  }
  return found;
}

}  // namespace ingot::standin::ptx
