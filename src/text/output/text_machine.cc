#include "text/output/text_machine.h"

#include <algorithm>
#include <utility>

namespace ingot::text {

void TextMachine::Enter(State state) {
  state_ = state;
  scan_ = at_;
}

bool TextMachine::Step() {
  switch (state_) {
    case State::kStart:
      return StepStart();
    case State::kReasoning:
      return StepReasoning();
    case State::kAfterReasoning:
      return StepAfterReasoning();
    case State::kVisible:
      return StepVisible();
    case State::kContent:
      return after_call_ ? StepSpaceAfterCall() : StepContent();
    case State::kCall:
      return StepCall();
    case State::kBetween:
      return StepBetween();
    case State::kBroken:
      return StepBroken();
  }
  return false;
}

bool TextMachine::StepStart() {
  if (!row_.think_begin.empty()) {
    const size_t at = SpaceEnd(0);
    // An end without a beginning means that the prompt began the reasoning and the model did not write any.
    for (const auto& [literal, next] :
         {std::pair(&row_.think_begin, State::kReasoning), std::pair(&row_.think_end, State::kAfterReasoning)}) {
      if (MayStandAt(at, *literal)) return false;
      if (!StandsAt(at, *literal)) continue;
      at_ = hold_ = at + literal->size();
      Enter(next);
      return true;
    }
  }
  Enter(State::kVisible);
  return true;
}

bool TextMachine::StepReasoning() {
  if (!reasoning_begun_) {
    at_ = hold_ = scan_ = std::min(in_.find_first_not_of('\n', at_), in_.size());
    if (at_ == in_.size()) return false;
    reasoning_begun_ = true;
  }
  // [at_, scan_) consists of line feeds, which belong to the format if the reasoning ends after them.
  const size_t end = in_.find(row_.think_end, scan_);
  size_t limit = end;
  if (end == std::string::npos) {
    limit = in_.size();
    if (!final_) limit -= PartialAtEnd(std::string_view(in_).substr(scan_), row_.think_end);
  }
  size_t last = limit;
  while (last > scan_ && in_[last - 1] == '\n') --last;
  if (last > scan_) {
    Reasoning(std::string_view(in_).substr(at_, last - at_));
    at_ = hold_ = last;
  }
  scan_ = limit;
  if (end == std::string::npos) {
    if (final_) at_ = hold_ = in_.size();
    return false;
  }
  at_ = hold_ = end + row_.think_end.size();
  Enter(State::kAfterReasoning);
  return true;
}

bool TextMachine::StepAfterReasoning() {
  at_ = hold_ = std::min(in_.find_first_not_of('\n', at_), in_.size());
  if (at_ == in_.size()) return false;
  Enter(State::kVisible);
  return true;
}

bool TextMachine::StepVisible() {
  const auto& sections = row_.sections;
  if (mode_ != CallMode::kText &&
      std::any_of(sections.begin(), sections.end(), [](const Section& section) { return section.bare; })) {
    const size_t at = SpaceEnd(at_);
    if (at == in_.size() && !final_) return false;
    for (size_t i = 0; i < sections.size(); ++i) {
      if (!sections[i].bare) continue;
      std::string first = FirstLiteral(sections[i].begin);
      if (first.empty()) first = sections[i].first_call;
      if (MayStandAt(at, first)) return false;
      if (!StandsAt(at, first)) continue;
      BeginSection(static_cast<int>(i), at, true);
      return true;
    }
  }
  Enter(State::kContent);
  return true;
}

const Trigger* TextMachine::TriggerAt(size_t at, bool& partial) const {
  partial = false;
  if (!row_.trigger_starts[static_cast<unsigned char>(in_[at])]) return nullptr;
  for (const Trigger& trigger : row_.triggers) {
    if (mode_ == CallMode::kText && trigger.section >= 0) continue;
    if (StandsAt(at, trigger.text)) return &trigger;
    if (MayStandAt(at, trigger.text)) {
      partial = true;
      return nullptr;
    }
  }
  return nullptr;
}

size_t TextMachine::HeldBefore(size_t limit, bool may_begin_here) const {
  if (mode_ == CallMode::kText) return 0;
  const std::string_view text = std::string_view(in_).substr(at_, limit - at_);
  size_t held = 0;
  for (const Section& section : row_.sections) {
    if (section.bare || section.before.empty()) continue;
    if (text.ends_with(section.before)) held = std::max(held, section.before.size());
    if (!may_begin_here) held = std::max(held, PartialAtEnd(text, section.before));
  }
  return held;
}

bool TextMachine::StepContent() {
  size_t at = scan_;
  bool partial = false;
  const Trigger* found = nullptr;
  while (at < in_.size() && (found = TriggerAt(at, partial)) == nullptr && !partial) ++at;
  const std::string_view text = std::string_view(in_).substr(at_, at - at_);
  if (found == nullptr) {
    const size_t held = final_ ? 0 : HeldBefore(at, partial);
    Content(text.substr(0, text.size() - held));
    at_ = hold_ = at - held;
    scan_ = at;
    return false;
  }
  if (found->section < 0) {
    Content(text);
    at_ = hold_ = at + found->text.size();
    Enter(State::kContent);
    return true;
  }
  const std::string& before = row_.sections[found->section].before;
  const size_t kept = text.size() - (text.ends_with(before) ? before.size() : 0);
  Content(text.substr(0, kept));
  hold_ = at_ + kept;
  BeginSection(found->section, at, false);
  return true;
}

// Whitespace after a call belongs to the format unless text follows it.
bool TextMachine::StepSpaceAfterCall() {
  const size_t at = SpaceEnd(at_);
  if (at == in_.size()) {
    if (final_) at_ = hold_ = at;
    return false;
  }
  bool partial = false;
  const Trigger* found = TriggerAt(at, partial);
  if (partial) return false;
  if (found != nullptr && found->section < 0) {
    at_ = hold_ = at + found->text.size();
    Enter(State::kContent);
    return true;
  }
  after_call_ = false;
  if (found != nullptr) {
    BeginSection(found->section, at, false);
  } else {
    Enter(State::kContent);
  }
  return true;
}

void TextMachine::BeginSection(int section, size_t at, bool bare) {
  section_ = &row_.sections[section];
  bare_ = bare;
  section_has_call_ = false;
  at_ = at;
  BeginCall();
  state_ = State::kCall;
  StartProgram(section_->begin);
}

void TextMachine::EndSection() {
  after_call_ = section_has_call_;
  Enter(State::kContent);
}

// ---- A call -------------------------------------------------------------------------------------------------------

bool TextMachine::StepCall() {
  if (AtProgramEnd()) {
    NextProgram();
    return true;
  }
  const Match match = StepElement();
  if (match == Match::kMore && !final_) return false;
  if (match != Match::kDone) Fail();
  return true;
}

void TextMachine::NextProgram() {
  if (program_ == &section_->end) {
    if (!section_has_call_) Content(std::string_view(in_).substr(hold_, at_ - hold_));
    hold_ = at_;
    EndSection();
  } else if (program_ == &section_->call) {
    section_has_call_ = true;
    EndCall();
    hold_ = at_;
    Enter(State::kBetween);
  } else {
    StartProgram(section_->call);
  }
}

void TextMachine::Fail() {
  if (held_arguments() > 0) {
    hold_ = after_arguments_;
    DropHeldArguments();
  }
  const std::string_view raw = std::string_view(in_).substr(hold_, at_ - hold_);
  if (program_ == &section_->end) {
    out_.malformed = true;
    if (!section_has_call_) Content(raw);
    hold_ = at_;
    EndSection();
    return;
  }
  if (committed_) {
    out_.malformed = true;
    broken_ = InArguments() ? BrokenPart::kArguments : BrokenPart::kJunk;
    if (broken_ == BrokenPart::kArguments) {
      BreakArguments(raw);
    } else {
      const size_t first = raw.find_first_not_of(kWhiteSpace);
      junk_begun_ = first != std::string_view::npos;
      if (junk_begun_) Content(raw.substr(first));
      BeginCall();
    }
    hold_ = at_;
    Enter(State::kBroken);
    return;
  }
  const bool is_text = bare_ && !begun_;
  Content(raw);
  hold_ = at_;
  BeginCall();
  if (is_text) {
    after_call_ = false;
    Enter(State::kContent);
  } else {
    out_.malformed = true;
    broken_ = BrokenPart::kContent;
    Enter(State::kBroken);
  }
}

// ---- After a call -------------------------------------------------------------------------------------------------

bool TextMachine::StepBetween() {
  const Section& section = *section_;
  if (section.separator.empty() && section.begin.empty() && section.end.empty()) {
    EndSection();
    return true;
  }
  const size_t at = SpaceEnd(at_);
  const std::string& next = section.separator.empty() ? section.first_call : section.separator;
  if (StandsAt(at, next)) {
    static const Program* const space = new Program{{.kind = Element::kSpace}};
    at_ = at + section.separator.size();
    state_ = State::kCall;
    BeginCall();
    StartProgram(*space);
    return true;
  }
  if (StandsAt(at, section.end_literal)) {
    at_ = at;
    state_ = State::kCall;
    StartProgram(section.end);
    return true;
  }
  if (MayStandAt(at, next) || MayStandAt(at, section.end_literal)) return false;
  if (section.end.empty()) {
    EndSection();
    return true;
  }
  out_.malformed = true;  // the section is not closed, or there is other text instead of a call
  if (at == in_.size()) {
    at_ = hold_ = at;
    return false;
  }
  broken_ = BrokenPart::kContent;
  Enter(State::kBroken);
  return true;
}

bool TextMachine::StepBroken() {
  const std::string_view ends[] = {section_->call_end, section_->end_literal};
  if (ends[0].empty() && ends[1].empty() && broken_ != BrokenPart::kArguments) {
    EndSection();
    after_call_ = false;
    return true;
  }
  size_t at = scan_;
  std::string_view found;
  for (bool partial = false; at < in_.size(); ++at) {
    for (const std::string_view end : ends) {
      if (StandsAt(at, end)) found = end;
      partial = partial || MayStandAt(at, end);
    }
    if (partial || !found.empty()) break;
  }
  // Outside content, whitespace at the end of the text so far may belong to the format, and so may a call's envelope.
  size_t last = at, first = scan_;
  if (broken_ == BrokenPart::kArguments) {
    for (size_t i = scan_; i < at; ++i) envelope_.Read(in_[i]);
    const bool is_end = !found.empty() || (final_ && at == in_.size());
    first = at_;
    last = is_end && !envelope_.whole() && envelope_.in_literal() ? at : at - envelope_.held();
  } else if (broken_ == BrokenPart::kJunk) {
    while (last > scan_ && kWhiteSpace.find(in_[last - 1]) != std::string_view::npos) --last;
  }
  if (last > first) {
    if (broken_ == BrokenPart::kJunk && !std::exchange(junk_begun_, true))
      at_ = in_.find_first_not_of(kWhiteSpace, at_);
    const std::string_view text = std::string_view(in_).substr(at_, last - at_);
    if (broken_ == BrokenPart::kArguments) {
      AddArguments(text);
    } else {
      Content(text);
    }
    at_ = hold_ = last;
  }
  scan_ = at;
  if (found.empty()) {
    if (final_) at_ = hold_ = in_.size();
    return false;
  }
  const bool is_call_end = found == ends[0];
  at_ = hold_ = at;
  if (is_call_end) {
    if (broken_ == BrokenPart::kContent) Content(found);
    at_ = hold_ = at + found.size();
  }
  BeginCall();
  // Without a separator and an end, the section ends with its call. A committed call counts as a call in the section.
  section_has_call_ = section_has_call_ || broken_ != BrokenPart::kContent;
  if (section_->end.empty() && section_->separator.empty()) {
    EndSection();
    after_call_ = broken_ != BrokenPart::kContent;
  } else {
    Enter(State::kBetween);
  }
  return true;
}

}  // namespace ingot::text
