// Turns as channel messages: rows with channels.
//
//   kHeader --message--> kBody --one of ends, `start` or `channel`--> kHeader
//
// What is no header is a body of content. A body of JSON that is whole where the output ends counts as a whole call:
// what ends it is a stop token, which is cut off before.
#pragma once

#include "text/output_machine.h"

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
  // Body text up to `limit`, of which the last white space may be the format's.
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
  bool raw_ = false;  // a call's text as content: its end belongs to it
  size_t scan_ = 0;
};

}  // namespace ingot::text
