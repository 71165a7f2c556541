#include "model/rope.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ingot::model {
namespace {

int64_t RotaryDim(const ModelConfig& config) { return config.rotary_dim > 0 ? config.rotary_dim : config.head_dim; }

// Scales wavelengths by their length (Llama 3.1): fully if they are too long for one rotation within the original
// context, not at all if they are short, and partly in between.
void StretchLongWaves(const RopeScaling& scaling, std::vector<float>& inverse) {
  const auto factor = static_cast<float>(scaling.factor), context = static_cast<float>(scaling.original_positions);
  const auto low = static_cast<float>(scaling.low_freq_factor), high = static_cast<float>(scaling.high_freq_factor);
  const double longest = static_cast<double>(scaling.original_positions) / scaling.low_freq_factor;
  const double shortest = static_cast<double>(scaling.original_positions) / scaling.high_freq_factor;
  for (float& frequency : inverse) {
    const float wave = static_cast<float>(2 * std::numbers::pi) / frequency;
    if (wave > static_cast<float>(longest)) {
      frequency /= factor;
    } else if (!(wave < static_cast<float>(shortest))) {
      const float smooth = (context / wave - low) / (high - low);
      frequency = (1 - smooth) * frequency / factor + smooth * frequency;
    }
  }
}

// The scaling increases between two pairs: the pair that rotates `beta_fast` times within the original context, and the
// pair that rotates `beta_slow` times (YaRN, arXiv 2309.00071, section 3.2).
void StretchByParts(const ModelConfig& config, std::vector<float>& inverse) {
  const RopeScaling& scaling = config.rope_scaling;
  const auto dims = static_cast<double>(RotaryDim(config));
  const auto pair_that_turns = [&](double times) {
    const auto context = static_cast<double>(scaling.original_positions);
    return dims * std::log(context / (times * 2 * std::numbers::pi)) / (2 * std::log(config.rope_theta));
  };
  double first = pair_that_turns(scaling.beta_fast), last = pair_that_turns(scaling.beta_slow);
  if (scaling.truncate) {
    first = std::floor(first);
    last = std::ceil(last);
  }
  first = std::max(first, 0.0);
  last = std::min(last, dims - 1);
  if (first == last) last += 0.001;
  for (size_t i = 0; i < inverse.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(RotaryDim(config));
    const float power = std::pow(static_cast<float>(config.rope_theta), exponent);
    const float ramp = (static_cast<float>(i) - static_cast<float>(first)) / static_cast<float>(last - first);
    const float kept = 1 - std::clamp(ramp, 0.0f, 1.0f);
    inverse[i] = 1.0f / (static_cast<float>(scaling.factor) * power) * (1 - kept) + 1.0f / power * kept;
  }
}

// Returns YaRN's factor that sharpens attention. The file may specify it. The default is from section 3.4.
double YarnScale(const RopeScaling& scaling) {
  const auto of = [&](double mscale) {
    return scaling.factor <= 1 ? 1.0 : 0.1 * mscale * std::log(scaling.factor) + 1.0;
  };
  if (scaling.attention_factor.has_value()) return *scaling.attention_factor;
  if (scaling.mscale != 0 && scaling.mscale_all_dim != 0) return of(scaling.mscale) / of(scaling.mscale_all_dim);
  return of(1);
}

}  // namespace

RopeFrequencies FrequenciesOf(const ModelConfig& config, bool local) {
  const bool own = local && config.local_rope_theta > 0;
  const auto theta = static_cast<float>(own ? config.local_rope_theta : config.rope_theta);
  RopeFrequencies frequencies;
  frequencies.inverse.resize(static_cast<size_t>(RotaryDim(config) / 2));
  for (size_t i = 0; i < frequencies.inverse.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(RotaryDim(config));
    frequencies.inverse[i] = 1.0f / std::pow(theta, exponent);
  }
  if (own) return frequencies;
  const RopeScaling& scaling = config.rope_scaling;
  if (scaling.type == "linear") {
    for (float& frequency : frequencies.inverse) frequency /= static_cast<float>(scaling.factor);
  } else if (scaling.type == "llama3") {
    StretchLongWaves(scaling, frequencies.inverse);
  } else if (scaling.type == "yarn") {
    StretchByParts(config, frequencies.inverse);
    frequencies.scale = static_cast<float>(YarnScale(scaling));
  }
  return frequencies;
}

RopeTables::RopeTables(const ModelConfig& config, const at::TensorOptions& options)
    : frequencies_(FrequenciesOf(config)), local_frequencies_(FrequenciesOf(config, /*local=*/true)) {
  const int64_t half = RotaryDim(config) / 2, positions = config.max_position_embeddings;
  const auto fill = [&](const RopeFrequencies& frequencies, at::Tensor& cos, at::Tensor& sin) {
    at::Tensor c = at::empty({positions, half}, at::kFloat), s = at::empty({positions, half}, at::kFloat);
    float *c_at = c.mutable_data_ptr<float>(), *s_at = s.mutable_data_ptr<float>();
    for (int64_t p = 0; p < positions; ++p) {
      for (const float frequency : frequencies.inverse) {
        const float angle = static_cast<float>(p) * frequency;
        *c_at++ = std::cos(angle) * frequencies.scale;
        *s_at++ = std::sin(angle) * frequencies.scale;
      }
    }
    cos = c.to(options);
    sin = s.to(options);
  };
  fill(frequencies_, cos_, sin_);
  if (config.local_rope_theta > 0) fill(local_frequencies_, local_cos_, local_sin_);
}

bool RopeTables::Fit(const ModelConfig& config, const at::TensorOptions& options) const {
  const auto equal = [](const RopeFrequencies& a, const RopeFrequencies& b) {
    return a.inverse == b.inverse && a.scale == b.scale;
  };
  return equal(FrequenciesOf(config), frequencies_) && equal(FrequenciesOf(config, true), local_frequencies_) &&
         local_cos_.defined() == (config.local_rope_theta > 0) && cos_.size(0) == config.max_position_embeddings &&
         cos_.scalar_type() == options.dtype().toScalarType() && cos_.device() == options.device();
}

}  // namespace ingot::model
