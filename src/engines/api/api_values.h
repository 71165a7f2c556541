// Values that the APIs of rollout servers have in common: JSON numbers, errors, and the kinds of sampling parameters.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/status.h"
#include "engines/api/engine_api.h"
#include "proto/rollout.pb.h"

namespace ingot::engines {

// INVALID_ARGUMENT with a base::Fault that names the parameter.
absl::Status Unsupported(const std::string& field, const std::string& why);
// DATA_LOSS for an event that is not what the server's API promises.
absl::Status Broken(std::string_view what);

// Returns nullopt if the field is missing, is not an integer, or does not fit.
std::optional<int64_t> Integer(const base::json::value* field);
// Returns nullopt if the field is missing or is not a number.
std::optional<double> Number(const base::json::value* field);
// Returns DATA_LOSS if the field is not an id, a non-negative 32-bit number.
absl::StatusOr<int32_t> ReadId(const base::json::value* field);

// Returns whether the parameters exclude ids from sampling by their probability.
bool Truncates(const v1::SamplingParams& sampling);
// Returns whether the parameters change logits, other than by the temperature.
bool ShapesLogits(const v1::SamplingParams& sampling);

// Returns the parameters that both servers spell alike: temperature, truncation, penalties, biases, and stop ids, which
// contain the model's EOS ids unless the request ignores them.
base::json::object SharedSampling(const v1::SamplingParams& sampling, const ServedModel& model);
// The seed as a signed number. Clients choose small seeds, so the lowest bits are kept.
int64_t SignedSeed(const v1::SamplingParams& sampling);

// Reads a finish reason: "stop", "length", or "abort". Returns kNone for null, and kFailed for anything else.
ServerFinish ReadFinish(const base::json::value* reason);
// Appends a list of ids to event.ids.
absl::Status ReadIds(const base::json::array& ids, AnswerEvent& event);
// Returns the HTTP status that an error in a body names, or `otherwise` if it names none of 400 to 599.
int ReadErrorStatus(const base::json::value* code, int otherwise);
// Reads a list of {"version", "start", "end"} into event.spans; null = none.
absl::Status ReadSpans(const base::json::value* spans, AnswerEvent& event);

// Returns INVALID_ARGUMENT, naming the part, if the request has a part that only Ingot's own engine supports.
absl::Status CheckTextOnly(const v1::GenerateRequest& request);

}  // namespace ingot::engines
