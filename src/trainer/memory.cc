#include "trainer/memory.h"

#include <absl/strings/str_format.h>
#include <malloc.h>

#include <algorithm>
#include <fstream>
#include <limits>

namespace ingot::trainer {
namespace {

// Bytes per row, key or part that the layers of one model take. Which tensors: model/transformer.cc and the autograd
// functions of kernels/torch/layers.cc.
struct Costs {
  Costs(const model::ModelConfig& c, int element_bytes)
      : element(element_bytes),
        accumulator(element_bytes == 8 ? 8 : 4),
        layers(c.num_hidden_layers),
        hidden(c.hidden_size),
        mlp(c.intermediate_size),
        heads(c.num_attention_heads),
        queries(c.num_attention_heads * c.head_dim),
        keys(c.num_key_value_heads * c.head_dim),
        vocab(c.vocab_size) {
    const int64_t raw = c.qk_norm ? 1 : 0;  // the norm's input is kept beside its result
    if (element_bytes == 2) {
      // Through ATen: every norm keeps its input in fp32 and the normalised row, the gate its silu.
      const int64_t rotated = 2 + raw * 3;
      history = element * (10 * hidden + (rotated + 1) * queries + (rotated + 1) * keys + 4 * mlp);
    } else {
      history = element * (4 * hidden + (2 + raw) * queries + (2 + raw) * keys + 3 * mlp);
    }
    history += accumulator * heads;
  }

  int64_t ExportBytes() const { return layers * 2 * keys * element; }
  int64_t ExportSums() const { return layers * 2 * keys * accumulator; }

  // The widest moment of a layer's backward pass over `rows` rows that see `prefix` more.
  int64_t Backward(int64_t rows, int64_t prefix) const {
    const int64_t all = rows + prefix;
    const int64_t gathered = prefix > 0 ? 2 * all * keys * element : 0;
    const int64_t attention = gathered + 2 * all * keys * accumulator +                      // sums
                              rows * queries * accumulator + 2 * all * keys * accumulator +  // kernel's scratch
                              2 * rows * heads * accumulator + rows * (2 * queries + hidden) * element;
    const int64_t products = rows * (3 * mlp + 3 * hidden) * element;
    return std::max(attention, products);
  }

  // Log-probs of `rows` rows, `chunk` elements of logits at a time: logits, their softmax, and gradients of both.
  int64_t Head(int64_t rows, int64_t chunk) const {
    const int64_t elements = std::min(std::max(chunk, vocab), rows * vocab);
    return 5 * elements * accumulator + (element == 2 ? 2 * elements * element : 0) + 5 * rows * hidden * element;
  }

  int64_t element, accumulator, layers, hidden, mlp, heads, queries, keys, vocab;
  int64_t history;  // of a layer, per row
};

std::string Size(int64_t bytes) { return absl::StrFormat("%.3g GB", static_cast<double>(bytes) * 1e-9); }

// The number behind `key` of a file like /proc/meminfo, in bytes; -1: not there.
int64_t KilobytesOf(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(key, 0) == 0) return std::strtoll(line.c_str() + key.size(), nullptr, 10) * 1024;
  }
  return -1;
}

// A file that holds one number; -1: none ("max").
int64_t NumberIn(const char* path) {
  std::ifstream file(path);
  int64_t value = -1;
  return file >> value ? value : -1;
}

}  // namespace

std::string MemoryNeed::Describe() const {
  return absl::StrCat(Size(total()), " (weights ", Size(weights), ", optimizer ", Size(optimizer), ", gradients ",
                      Size(gradients), ", waiting parts ", Size(waiting), ", running part ", Size(running),
                      ", its widest moment ", Size(transient), ")");
}

MemoryNeed PredictMemory(const model::ModelConfig& config, int element_bytes, const PassOptions& options,
                         std::span<const tree::ForestPart> parts) {
  const Costs costs(config, element_bytes);
  const int64_t parameters = config.ParameterCount();
  const bool narrow = element_bytes < 4;
  MemoryNeed need;
  need.weights = parameters * element_bytes;
  need.optimizer = parameters * costs.accumulator * (narrow ? 3 : 2);  // moments, and masters
  // One matrix's gradient is there twice while it is added.
  const int64_t largest = std::max(config.vocab_size, config.intermediate_size) * config.hidden_size;
  need.gradients = parameters * (narrow ? element_bytes + costs.accumulator : element_bytes) + largest * element_bytes;

  const int64_t kept_row =
      options.checkpoint_layers ? costs.layers * costs.hidden * costs.element : costs.layers * costs.history;
  const auto waiting = [&](const tree::KeptRows& kept) {
    // Without checkpointing the exports are mostly part of the history.
    const int64_t rows = options.recompute_prefix ? 0 : kept.parts * kept_row;
    const bool apart = options.recompute_prefix || options.checkpoint_layers;
    return rows + kept.exports * (costs.ExportSums() + (apart ? costs.ExportBytes() : 0));
  };
  const auto running = [&](const tree::KeptRows& kept) { return kept.running * kept_row; };
  const auto transient = [&](const tree::KeptRows& kept) {
    const int64_t again = options.checkpoint_layers ? kept.running * costs.history : 0;
    return std::max(costs.Head(kept.running, options.logits_chunk_elements),
                    again + costs.Backward(kept.running, kept.prefix));
  };
  const tree::KeptRows most = tree::MostKept(parts, [&](const tree::KeptRows& kept) {
    return static_cast<double>(waiting(kept)) + static_cast<double>(running(kept) + transient(kept));
  });
  need.waiting = waiting(most);
  need.running = running(most);
  need.transient = transient(most);
  return need;
}

tree::ForestPart UncutPart(int64_t rows) {
  tree::ForestPart part;
  part.end = static_cast<int32_t>(std::min<int64_t>(rows, std::numeric_limits<int32_t>::max()));
  return part;
}

int64_t AvailableMemory() {
  int64_t available = KilobytesOf("/proc/meminfo", "MemAvailable:");
  if (available < 0) available = std::numeric_limits<int64_t>::max();
  const int64_t limit = NumberIn("/sys/fs/cgroup/memory.max"), used = NumberIn("/sys/fs/cgroup/memory.current");
  if (limit >= 0 && used >= 0) available = std::min(available, std::max<int64_t>(0, limit - used));
  return available;
}

absl::Status CheckMemory(const MemoryNeed& need, int64_t bytes, int64_t available, const std::string& what,
                         const PassOptions& options) {
  if (bytes <= available) return absl::OkStatus();
  std::string advice = absl::StrCat("lower trainer.micro_batch_tokens (", options.part_tokens, ")");
  if (!options.checkpoint_layers) absl::StrAppend(&advice, ", set trainer.checkpoint_layers");
  if (!options.recompute_prefix) absl::StrAppend(&advice, ", set trainer.recompute_prefix");
  return absl::ResourceExhaustedError(absl::StrCat(what, " needs ", need.Describe(), ", of which ", Size(bytes),
                                                   " must still be had; ", Size(available), " can: ", advice,
                                                   ", lower trainer.logits_chunk_elements (",
                                                   options.logits_chunk_elements, ") or use a larger machine"));
}

int64_t ResidentMemory() { return std::max<int64_t>(0, KilobytesOf("/proc/self/status", "VmRSS:")); }

int64_t PeakMemory() { return std::max<int64_t>(0, KilobytesOf("/proc/self/status", "VmHWM:")); }

bool ResetPeakMemory() {
  malloc_trim(0);
  std::ofstream file("/proc/self/clear_refs");
  return static_cast<bool>(file << "5" << std::flush);
}

}  // namespace ingot::trainer
