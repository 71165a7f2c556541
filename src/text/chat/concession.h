// Concessions: changes to a conversation without which its chat template rejects it (text/chat/fitted_conversation.h).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace ingot::text {

// In the order in which they are tried: concessions that change less come first.
enum class Concession : uint8_t {
  kToolDescription,  // a tool without a description gets an empty one
  kToolParameters,   // a tool without parameters gets an empty schema, and each parameter a description
  kArguments,        // arguments that are not an object become the object that can be read from them
  kOneCall,          // each call of an answer becomes its own message
  kBlankContent,     // a message without any text gets a space
  kLeadingSystem,    // leading system messages become one
  kLateSystem,       // a later system message goes into the neighboring user turn
  kTurns,            // neighboring messages of one role become one, and a user's turn comes first
  kUserAfterResult,  // a user's message after the result of a call goes into that result
  kAnySystem,        // the leading system message goes into a user turn, too
  kCallsAsText,      // calls become text of their message, and their results become user messages
};
inline constexpr size_t kConcessions = 11;

// Its name in metrics.
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

// How often each concession was made.
using ConcessionCounts = std::array<int64_t, kConcessions>;
inline void Count(Concessions made, ConcessionCounts& counts) {
  for (size_t i = 0; i < kConcessions; ++i) counts[i] += made.Has(static_cast<Concession>(i));
}

}  // namespace ingot::text
