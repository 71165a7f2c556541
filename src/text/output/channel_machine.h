// Parses formats with channels, where turns consist of messages with headers (ChannelRow).
//
//   kHeader --message--> kBody --one of ends, `start` or `channel`--> kHeader
//
// Text without a header is content. If the output ends inside a call's body and the body is complete JSON, the call is
// complete. Messages normally end with a stop token, which is removed from the output.
#pragma once

#include "text/output/output_machine.h"

namespace ingot::text {

class ChannelMachine final : public OutputMachine {
 public:
  ChannelMachine(const CompiledRow& row, CallMode mode) : OutputMachine(row, mode) {}

 private:
  enum class Body { kContent, kReasoning, kCall };

  bool Step() override { return in_body_ ? StepBody() : StepHeader(); }
  bool StepHeader();
  bool StepBody();
  void BeginBody(std::string_view header, size_t header_begin);
  // Adds body text up to `limit`, except for trailing whitespace, which may belong to the format.
  void AddBody(size_t limit);
  void EndBody(std::string_view end);
  void AddText(std::string_view inner);
  bool BeginArguments(size_t limit);
  void GiveUpCall();
  bool StandsAt(size_t at, std::string_view literal) const;
  bool MayStandAt(size_t at, std::string_view literal) const;

  bool in_body_ = false;
  Body body_ = Body::kContent;
  bool body_has_text_ = false;
  bool raw_ = false;  // the body is a call whose text is kept as content, including its end
  size_t scan_ = 0;
};

}  // namespace ingot::text
