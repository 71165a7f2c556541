// Runs attention kernels on the machine, for tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
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
  std::map<std::string, uint64_t> global_bytes;    // by kernel
  std::map<std::string, uint64_t> global_sectors;  // by kernel

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
    global_sectors[name] += outcome.counters.global_sectors;
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

// out and lse of a head of a query in fp64, from the definition in attention.h.
struct Row {
  std::vector<double> out;
  double lse;
};

inline double Dot(const kernels::BFloat16* a, const kernels::BFloat16* b, int64_t count) {
  double sum = 0;
  for (int64_t d = 0; d < count; ++d) sum += double{kernels::ToFloat(a[d])} * double{kernels::ToFloat(b[d])};
  return sum;
}

inline Row Define(const kernels::testing::Stream<kernels::BFloat16>& s, int64_t query, int64_t head) {
  const kernels::AttentionShape& a = s.shape;
  const int64_t kv_head = head / (a.heads / a.kv_heads);
  std::vector<double> scores(query + 1, -INFINITY);
  double top = s.sinks.empty() ? -INFINITY : double{s.sinks[head]};
  for (int64_t key = 0; key <= query; ++key) {
    const bool near = a.window == 0 || s.positions[query] - s.positions[key] < a.window;
    if (query >= s.visible_end[key] || !near) continue;
    scores[key] = a.scale * Dot(s.q.data() + (query * a.heads + head) * a.head_dim,
                                s.k.data() + (key * a.kv_heads + kv_head) * a.head_dim, a.head_dim);
    top = std::max(top, scores[key]);
  }
  Row row{std::vector<double>(a.head_dim), -INFINITY};
  double sum = s.sinks.empty() ? 0 : std::exp(double{s.sinks[head]} - top);
  for (int64_t key = 0; key <= query; ++key) {
    if (std::isinf(scores[key])) continue;
    const double p = std::exp(scores[key] - top);
    sum += p;
    const kernels::BFloat16* const v = s.v.data() + (key * a.kv_heads + kv_head) * a.head_dim;
    for (int64_t d = 0; d < a.head_dim; ++d) row.out[d] += p * double{kernels::ToFloat(v[d])};
  }
  if (sum == 0) return row;
  for (double& x : row.out) x /= sum;
  row.lse = top + std::log(sum);
  return row;
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
