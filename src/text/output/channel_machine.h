// The parser of rows with channels: turns of messages with headers (ChannelRow).
//
//   kHeader --message--> kBody --one of ends, `start` or `channel`--> kHeader
//
// Text without a header is a body of content. If the output ends in a call's body and the body is complete JSON, the
// call is complete, because a message normally ends with a stop token and stop tokens are cut off.
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
  // Adds body text up to `limit`, except white space at its end, which may belong to the format.
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
  bool raw_ = false;  // the body is the text of a call as content; its end belongs to it
  size_t scan_ = 0;
};

}  // namespace ingot::text
