// Makes terms and asks them about groups.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/json.h"
#include "group_maker.h"
#include "reward/facts.h"
#include "reward/options.h"
#include "reward/term_kinds.h"

namespace ingot::reward {

inline TermOptions TermOf(const std::string& kind) {
  TermOptions options;
  options.kind = kind;
  return options;
}

using Results = std::vector<absl::StatusOr<TermResult>>;

inline absl::StatusOr<Results> Judge(const TermOptions& options, const GroupFacts& facts) {
  const auto term = MakeTerm(options);
  EXPECT_TRUE(term.ok()) << term.status();
  return (*term)->Judge(facts);
}

// The results of a group that is judged at `version` of 100 steps.
inline Results ResultsOf(const TermOptions& options, const v1::Group& group, int64_t version = 0) {
  const auto facts = FactsOf(group, version, 100);
  EXPECT_TRUE(facts.ok()) << facts.status();
  const auto results = Judge(options, *facts);
  EXPECT_TRUE(results.ok()) << results.status();
  return results.ok() ? *results : Results();
}

// The values of a group without errors, including calls' values.
inline std::vector<double> ValuesOf(const TermOptions& options, const v1::Group& group, int64_t version = 0) {
  std::vector<double> values;
  for (const auto& result : ResultsOf(options, group, version)) {
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) continue;
    values.push_back(result->value);
    for (const auto& [call, value] : result->calls) values.back() += value;
  }
  return values;
}

// The error of the group's only episode.
inline std::string FaultOf(const TermOptions& options, const v1::Group& group) {
  const Results results = ResultsOf(options, group);
  return results.at(0).ok() ? "" : std::string(results.at(0).status().message());
}

inline void SetFact(v1::EpisodeTree& tree, const std::string& name, const std::string& json) {
  (*tree.mutable_episode()->mutable_facts())[name] = json;
}

// Sets the message that the call's client received.
inline void Deliver(v1::Call& call, const std::string& content, const std::string& reasoning = "",
                    const std::string& tool_call_id = "") {
  base::json::object message{{"role", "assistant"}, {"content", content}};
  if (!reasoning.empty()) message["reasoning_content"] = reasoning;
  if (!tool_call_id.empty()) {
    message["tool_calls"] = {
        base::json::object{{"id", tool_call_id}, {"function", {{"name", "f"}, {"arguments", "{\"a\":1}"}}}}};
  }
  call.set_delivered_json(base::PrintJson(message));
}

}  // namespace ingot::reward
