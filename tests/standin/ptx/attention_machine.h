// Runs attention kernels on the machine, for tests.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/attention/attention_stream.h"
#include "standin/ptx/test_memory.h"

namespace ingot::standin::ptx {

// The module, its memory, and what its launches did.
struct Machine {
  TestMemory memory;
  std::unique_ptr<Module> module;
  Options options;
  std::vector<Report> reports;
  Counters counters;
  std::map<std::string, uint64_t> global_bytes;  // by kernel

  explicit Machine(const std::string& ptx) : module(Module::Load(ptx, memory)) {}

  template <typename Args>
  void Run(const std::string& name, const Launch& launch, const Args& args) {
    if (reports.size() >= options.max_reports) return;
    const Kernel* const kernel = module->FindKernel(name);
    ASSERT_NE(kernel, nullptr) << name;
    ASSERT_EQ(kernel->parameter_bytes, sizeof(Args));
    const Outcome outcome = module->Run(*kernel, launch, std::as_bytes(std::span(&args, 1)), options);
    reports.insert(reports.end(), outcome.reports.begin(), outcome.reports.end());
    global_bytes[name] += outcome.counters.global_bytes;
    counters.instructions += outcome.counters.instructions;
    counters.wavefronts += outcome.counters.wavefronts;
    counters.ideal_wavefronts += outcome.counters.ideal_wavefronts;
  }

  template <typename T>
  T* Put(const std::vector<T>& values) {
    return reinterpret_cast<T*>(memory.Put(std::span<const T>(values)));
  }
  template <typename T>
  std::vector<T> Get(const T* address, size_t count) {
    return memory.Get<T>(reinterpret_cast<uint64_t>(address), count);
  }
};

template <typename T>
kernels::AttentionSequence SequenceOf(const kernels::testing::Stream<T>& s) {
  kernels::AttentionSequence sequence;
  sequence.q_count = sequence.key_count = s.rows;
  sequence.visible_end = s.Ends();
  sequence.positions = s.Positions();
  return sequence;
}

inline void ExpectNoReport(const Machine& m) {
  for (const Report& r : m.reports) ADD_FAILURE() << r.kind << ": " << r.text;
}

// Where an instruction of the kernel begins in the text.
inline std::vector<size_t> PlacesOf(const std::string& ptx, const std::string& kernel, const std::string& instruction) {
  std::vector<size_t> places;
  const size_t begin = ptx.find(".entry " + kernel), end = ptx.find("\n}\n", begin);
  for (size_t at = ptx.find(instruction, begin); at < end; at = ptx.find(instruction, at + 1)) places.push_back(at);
  return places;
}

// Returns the PTX without the instruction at `place`. Blanks keep all other text where it is.
inline std::string Without(std::string ptx, size_t place) {
  for (size_t i = place; ptx[i] != ';'; ++i) ptx[i] = ' ';
  return ptx;
}

}  // namespace ingot::standin::ptx
