#include "standin/runtime/settings.h"

#include <cuda_runtime_api.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

namespace ingot::standin {
namespace {

int64_t Number(const char* name, int64_t unset, int64_t least, int64_t most) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return unset;
  char* end = nullptr;
  const long long value = std::strtoll(text, &end, 10);
  if (*end != '\0' || value < least || value > most) {
    Die("%s is '%.200s': give a number from %lld to %lld", name, text, static_cast<long long>(least),
        static_cast<long long>(most));
  }
  return value;
}

template <typename T, size_t N>
T Choice(const char* name, const std::pair<const char*, T> (&choices)[N]) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return choices[0].second;
  std::string known;
  for (const auto& [word, value] : choices) {
    if (std::strcmp(text, word) == 0) return value;
    known += std::string(known.empty() ? "" : ", ") + word;
  }
  Die("%s is '%.200s': choose one of %s", name, text, known.c_str());
}

Settings Read() {
  using ptx::Arrival;
  Settings s;
  s.streams =
      Choice<StreamMode>("INGOT_STANDIN_STREAMS",
                         {{"lazy", StreamMode::kLazy}, {"eager", StreamMode::kEager}, {"random", StreamMode::kRandom}});
  s.seed = static_cast<uint64_t>(Number("INGOT_STANDIN_SEED", 0, 0, INT64_MAX));
  s.devices = static_cast<int>(Number("INGOT_STANDIN_DEVICES", 1, 0, 8));
  s.memory_bytes = static_cast<size_t>(Number("INGOT_STANDIN_MEMORY_MB", 4096, 1, 1 << 20)) << 20;
  s.capability = static_cast<int>(Number("INGOT_STANDIN_CAPABILITY", 80, 50, 120));
  s.driver_version = static_cast<int>(Number("INGOT_STANDIN_DRIVER", CUDART_VERSION, 0, 99000));
  s.first_failing_allocation = Number("INGOT_STANDIN_FAIL_MALLOC_FROM", 0, 0, INT64_MAX);
  s.other_bytes = static_cast<size_t>(Number("INGOT_STANDIN_OTHER_MB", 0, 0, 1 << 20)) << 20;
  s.other_after = Number("INGOT_STANDIN_OTHER_AFTER", 0, 0, INT64_MAX);
  s.fault = Choice<int>(
      "INGOT_STANDIN_FAULT",
      {{"illegal", cudaErrorIllegalAddress}, {"launch", cudaErrorLaunchFailure}, {"ecc", cudaErrorECCUncorrectable}});
  s.faulting_launch = Number("INGOT_STANDIN_FAULT_AT", 0, 0, INT64_MAX);
  s.fault_file = std::getenv("INGOT_STANDIN_FAULT_ONCE");
  s.failing_allocation = Number("INGOT_STANDIN_FAIL_MALLOC", 0, 0, INT64_MAX);
  s.fresh_byte = Choice<int>("INGOT_STANDIN_FRESH", {{"nan", 0xff}, {"zero", 0}});
  s.statistics = Number("INGOT_STANDIN_STATISTICS", 0, 0, 1) != 0;
  s.machine.seed = s.seed;
  s.machine.count_memory = false;
  s.machine.arrival = Choice<Arrival>(
      "INGOT_STANDIN_ARRIVAL", {{"late", Arrival::kLate}, {"early", Arrival::kEarly}, {"random", Arrival::kRandom}});
  s.machine.empty_copies_land = Choice<bool>("INGOT_STANDIN_EMPTY_COPIES", {{"wait", false}, {"land", true}});
  s.machine.check_races = Number("INGOT_STANDIN_RACES", 1, 0, 1) != 0;
  return s;
}

}  // namespace

const Settings& GetSettings() {
  static const Settings* settings = new Settings(Read());
  return *settings;
}

void Die(const char* format, ...) {
  std::fputs("stand-in: ", stderr);
  va_list arguments;
  va_start(arguments, format);
  std::vfprintf(stderr, format, arguments);
  va_end(arguments);
  std::fputc('\n', stderr);
  std::fflush(stderr);
  std::abort();
}

}  // namespace ingot::standin
