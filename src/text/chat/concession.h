// Lists the concessions: changes to a conversation that make its chat template accept it (fitted_conversation.h).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace ingot::text {

// Concessions are tried in this order, from the smallest change to the largest.
enum class Concession : uint8_t {
  kToolDescription,  // adds an empty description to tools without one
  kToolParameters,   // adds an empty schema to tools without parameters, and a description to each parameter
  kArguments,        // replaces arguments that are not an object with the object that can be parsed from them
  kOneCall,          // moves each call in an answer into its own message
  kBlankContent,     // adds a space to messages without text
  kLeadingSystem,    // joins leading system messages
  kLateSystem,       // moves a later system message into the neighboring user turn
  kTurns,            // joins neighboring messages with the same role, and adds a user turn at the start if needed
  kUserAfterResult,  // moves a user message that follows a call's result into that result
  kAnySystem,        // also moves the leading system message into a user turn
  kCallsAsText,      // turns calls into message text, and their results into user messages
};
inline constexpr size_t kConcessions = 11;

// Names used in metrics.
inline constexpr std::array<std::string_view, kConcessions> kConcessionNames = {
    "tool_description", "tool_parameters", "arguments",         "one_call",   "blank_content", "leading_system",
    "late_system",      "turns",           "user_after_result", "any_system", "calls_as_text"};
constexpr std::string_view NameOf(Concession concession) { return kConcessionNames[static_cast<size_t>(concession)]; }

// A set of concessions.
class Concessions {
 public:
  constexpr bool Has(Concession concession) const { return (bits_ & Bit(concession)) != 0; }
  constexpr bool none() const { return bits_ == 0; }
  constexpr Concessions With(Concession concession) const { return Concessions(bits_ | Bit(concession)); }
  constexpr Concessions Without(Concession concession) const { return Concessions(bits_ & ~Bit(concession)); }
  constexpr Concessions() = default;
  bool operator==(const Concessions&) const = default;

 private:
  static constexpr uint32_t Bit(Concession concession) { return uint32_t{1} << static_cast<uint32_t>(concession); }
  constexpr explicit Concessions(uint32_t bits) : bits_(bits) {}
  uint32_t bits_ = 0;
};

// Number of times each concession was made.
using ConcessionCounts = std::array<int64_t, kConcessions>;
inline void Count(Concessions made, ConcessionCounts& counts) {
  for (size_t i = 0; i < kConcessions; ++i) counts[i] += made.Has(static_cast<Concession>(i));
}

}  // namespace ingot::text
