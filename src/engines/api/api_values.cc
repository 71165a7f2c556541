#include "engines/api/api_values.h"

#include <limits>
#include <utility>

#include "base/fault.h"
#include "base/printable.h"

namespace ingot::engines {

absl::Status Unsupported(const std::string& field, const std::string& why) { return base::FaultError({field, why}); }

absl::Status Broken(std::string_view what) {
  return absl::DataLossError(absl::StrCat("the server sent an invalid event: ", base::View(what)));
}

std::optional<int64_t> Integer(const base::json::value* field) {
  if (field == nullptr) return std::nullopt;
  if (field->is_int64()) return field->get_int64();
  if (field->is_uint64() && field->get_uint64() <= std::numeric_limits<int64_t>::max()) {
    return static_cast<int64_t>(field->get_uint64());
  }
  return std::nullopt;
}

std::optional<double> Number(const base::json::value* field) {
  if (field == nullptr || !field->is_number()) return std::nullopt;
  return field->to_number<double>();
}

absl::StatusOr<int32_t> ReadId(const base::json::value* field) {
  const std::optional<int64_t> id = Integer(field);
  if (!id.has_value() || *id < 0 || *id > std::numeric_limits<int32_t>::max())
    return Broken("a token id is not a valid id");
  return static_cast<int32_t>(*id);
}

bool Truncates(const v1::SamplingParams& sampling) {
  return (sampling.top_p() > 0 && sampling.top_p() < 1) || sampling.top_k() > 0 || sampling.min_p() > 0;
}

bool ShapesLogits(const v1::SamplingParams& sampling) {
  return sampling.frequency_penalty() != 0 || sampling.presence_penalty() != 0 ||
         (sampling.repetition_penalty() != 0 && sampling.repetition_penalty() != 1) || sampling.logit_bias_size() > 0 ||
         sampling.min_new_tokens() > 0 || sampling.has_grammar();
}

base::json::object SharedSampling(const v1::SamplingParams& sampling, const ServedModel& model) {
  base::json::array stop_ids;
  for (const int32_t id : sampling.stop_token_ids()) stop_ids.emplace_back(id);
  if (!sampling.ignore_eos()) {
    for (const int32_t id : model.eos_ids) stop_ids.emplace_back(id);
  }
  base::json::object params = {
      {"temperature", sampling.temperature()}, {"ignore_eos", true}, {"stop_token_ids", std::move(stop_ids)}};
  if (sampling.top_p() > 0) params["top_p"] = sampling.top_p();
  if (sampling.top_k() > 0) params["top_k"] = sampling.top_k();
  if (sampling.min_p() > 0) params["min_p"] = sampling.min_p();
  if (sampling.frequency_penalty() != 0) params["frequency_penalty"] = sampling.frequency_penalty();
  if (sampling.presence_penalty() != 0) params["presence_penalty"] = sampling.presence_penalty();
  if (sampling.repetition_penalty() != 0) params["repetition_penalty"] = sampling.repetition_penalty();
  if (sampling.logit_bias_size() == 0) return params;
  base::json::object bias;
  for (const auto& [id, added] : sampling.logit_bias()) bias[absl::StrCat(id)] = added;
  params["logit_bias"] = std::move(bias);
  return params;
}

int64_t SignedSeed(const v1::SamplingParams& sampling) {
  return static_cast<int64_t>(sampling.seed() & std::numeric_limits<int64_t>::max());
}

ServerFinish ReadFinish(const base::json::value* reason) {
  if (reason == nullptr || reason->is_null()) return ServerFinish::kNone;
  if (!reason->is_string()) return ServerFinish::kFailed;
  const std::string_view word = reason->get_string();
  if (word == "stop") return ServerFinish::kStop;
  if (word == "length") return ServerFinish::kLength;
  return word == "abort" ? ServerFinish::kAborted : ServerFinish::kFailed;
}

absl::Status ReadIds(const base::json::array& ids, AnswerEvent& event) {
  for (const base::json::value& id : ids) {
    INGOT_ASSIGN_OR_RETURN(const int32_t read, ReadId(&id));
    event.ids.push_back(read);
  }
  return absl::OkStatus();
}

int ReadErrorStatus(const base::json::value* code, int otherwise) {
  const int64_t status = Integer(code).value_or(otherwise);
  return status < 400 || status > 599 ? otherwise : static_cast<int>(status);
}

absl::Status ReadSpans(const base::json::value* spans, AnswerEvent& event) {
  if (spans == nullptr || !spans->is_array()) return absl::OkStatus();
  for (const base::json::value& span : spans->get_array()) {
    const base::json::value* label = base::Find(span, "version");
    const std::optional<int64_t> begin = Integer(base::Find(span, "start")), end = Integer(base::Find(span, "end"));
    if (label == nullptr || !label->is_string() || !begin.has_value() || !end.has_value()) {
      return Broken("weight_versions");
    }
    event.spans.push_back({std::string(label->get_string()), *begin, *end});
  }
  return absl::OkStatus();
}

absl::Status CheckTextOnly(const v1::GenerateRequest& request) {
  if (request.forced_ids_size() > 0) return Unsupported("forced_ids", "the server cannot force ids");
  if (request.first_index() > 0) return Unsupported("first_index", "the server cannot continue a call");
  if (request.placeholders_size() > 0) return Unsupported("placeholders", "Ingot sends the server only text");
  if (request.record_routes()) return Unsupported("record_routes", "Ingot does not read the server's experts yet");
  return absl::OkStatus();
}

}  // namespace ingot::engines
