#include "app/models/gpu_card.h"

#include <absl/strings/ascii.h>
#include <absl/strings/numbers.h>

#include <array>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"

namespace ingot::app {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// The driver keeps this much, at most: torch reports 79.25 GiB for an A100 for which nvidia-smi reports 80, 79.11 for
// an H100 with 79.65, and 44.40 for an L40S with 44.99 (out-of-memory messages in public issues).
constexpr int64_t kDriverMiB = 768;

// The total memory, in MiB, that nvidia-smi reports. A10 to H200: "Why does an NVIDIA H100 80GB card offer 85.52 GB?"
// (thundergolfer.com). The others: NVIDIA's product names, and the totals in public issues.
constexpr std::array<std::pair<const char*, int64_t>, 12> kCards = {{{"3090", 24576},
                                                                     {"4090", 24564},
                                                                     {"5090", 32607},
                                                                     {"a10", 23028},
                                                                     {"a100-40", 40960},
                                                                     {"a100-80", 81920},
                                                                     {"a6000", 49140},
                                                                     {"b200", 183359},
                                                                     {"h100", 81559},
                                                                     {"h200", 143771},
                                                                     {"l4", 23034},
                                                                     {"l40s", 46068}}};

absl::Status Unknown(const std::string& text) {
  std::vector<std::string> names;
  for (const auto& [name, total] : kCards) names.emplace_back(name);
  return absl::InvalidArgumentError(absl::StrCat("unknown GPU '", text, "': name one of ", absl::StrJoin(names, ", "),
                                                 ", or its memory in GiB, such as 24; 8xh100 stands for eight GPUs"));
}

}  // namespace

absl::StatusOr<GpuMachine> ParseGpus(const std::string& text) {
  constexpr int64_t kMaxGiB = 4096;
  constexpr int kMaxCount = 1024;
  GpuMachine machine;
  std::string card = absl::AsciiStrToLower(text);
  if (const size_t times = card.find('x'); times != std::string::npos) {
    if (!absl::SimpleAtoi(card.substr(0, times), &machine.count) || machine.count < 1 || machine.count > kMaxCount) {
      return Unknown(text);
    }
    card = card.substr(times + 1);
  }
  machine.card = card;
  for (const auto& [name, total] : kCards) {
    if (card == name) machine.card_bytes = (total - kDriverMiB) * kMiB;
  }
  if (machine.card_bytes > 0) return machine;
  int64_t gib = 0;
  if (!absl::SimpleAtoi(card, &gib) || gib < 1 || gib > kMaxGiB) return Unknown(text);
  machine.card = absl::StrCat(gib, " GiB");
  machine.card_bytes = (gib * 1024 - kDriverMiB) * kMiB;
  return machine;
}

}  // namespace ingot::app
