#include "text/output/channel_machine.h"

#include <algorithm>
#include <cctype>

namespace ingot::text {
namespace {

constexpr size_t kMaxHeader = 1024;  // bytes
constexpr std::string_view kRole = "assistant";

// Returns the first word of `text`.
std::string_view Word(std::string_view text) { return text.substr(0, text.find_first_of(" \t\r\n<\xFF")); }

std::string_view After(std::string_view text, std::string_view key) {
  const size_t at = key.empty() ? std::string_view::npos : text.find(key);
  return at == std::string_view::npos ? std::string_view() : text.substr(at + key.size());
}

std::string_view Recipient(std::string_view header, std::string_view key) {
  for (size_t at = header.find(key); at != std::string_view::npos; at = header.find(key, at + 1)) {
    if (at == 0 || !std::isalnum(static_cast<unsigned char>(header[at - 1])))
      return Word(header.substr(at + key.size()));
  }
  return {};
}

}  // namespace

bool ChannelMachine::StandsAt(size_t at, std::string_view literal) const {
  return !literal.empty() && std::string_view(in_).substr(at).starts_with(literal);
}

bool ChannelMachine::MayStandAt(size_t at, std::string_view literal) const {
  return !final_ && in_.size() - at < literal.size() && literal.starts_with(std::string_view(in_).substr(at));
}

bool ChannelMachine::StepHeader() {
  const size_t at = std::min(in_.find_first_not_of(kWhiteSpace, std::max(at_, scan_)), in_.size());
  scan_ = at;
  if (at == in_.size()) {
    if (final_) at_ = hold_ = at;
    return false;
  }
  bool stands = false, may = false;
  for (const std::string_view first :
       {std::string_view(row_.start), std::string_view(row_.channel), std::string_view(row_.constrain),
        std::string_view(row_.message), std::string_view(row_.row.channels.recipient_key), kRole}) {
    stands = stands || StandsAt(at, first);
    may = may || MayStandAt(at, first);
  }
  if (!stands && may) return false;
  const std::string_view all = std::string_view(in_).substr(at, kMaxHeader);
  const std::string_view window = all.substr(0, all.find(row_.start, 1));
  const size_t end = stands ? window.find(row_.message) : std::string_view::npos;
  if (stands && end == std::string_view::npos && window.size() < kMaxHeader && window.size() == all.size() && !final_) {
    return false;
  }
  in_body_ = true;
  body_has_text_ = raw_ = false;
  body_ = Body::kContent;
  if (end != std::string_view::npos) {
    BeginBody(window.substr(0, end), at);
    return true;
  }
  // No header, so this is plain text. The search for its end starts after the text that looked like a header.
  scan_ = at_;
  if (stands) {
    out_.malformed = !Recipient(window, row_.row.channels.recipient_key).empty() || out_.malformed;
    scan_ = at + 1;
  }
  return true;
}

void ChannelMachine::BeginBody(std::string_view header, size_t header_begin) {
  const ChannelRow& channels = row_.row.channels;
  const std::string_view channel = Word(After(header, row_.channel));
  std::string_view recipient = Recipient(header, channels.recipient_key);
  if (recipient.starts_with(channels.recipient_prefix)) recipient.remove_prefix(channels.recipient_prefix.size());
  const bool is_call = !recipient.empty();
  const size_t body = header_begin + header.size() + row_.message.size();
  scan_ = body;
  if (is_call && mode_ == CallMode::kText) {
    raw_ = true;
    at_ = hold_ = header_begin;
    return;
  }
  if (is_call) {
    body_ = Body::kCall;
    BeginCall();
    call().name = std::string(recipient);
    hold_ = header_begin;
    at_ = body;
    return;
  }
  if (std::find(channels.reasoning.begin(), channels.reasoning.end(), channel) != channels.reasoning.end()) {
    body_ = Body::kReasoning;
  }
  at_ = hold_ = body;
}

bool ChannelMachine::StepBody() {
  size_t at = scan_;
  std::string_view end;
  for (bool partial = false; at < in_.size(); ++at) {
    for (const std::string& literal : row_.ends) {
      if (StandsAt(at, literal)) end = literal;
      partial = partial || MayStandAt(at, literal);
    }
    if (StandsAt(at, row_.channel)) end = row_.channel;
    partial = partial || MayStandAt(at, row_.channel);
    if (partial || !end.empty()) break;
  }
  AddBody(at);
  scan_ = at;
  if (end.empty() && !final_) return false;
  EndBody(end);
  in_body_ = false;
  scan_ = at_;
  return at_ < in_.size();
}

void ChannelMachine::AddText(std::string_view inner) {
  if (inner.empty()) return;
  std::string& target = body_ == Body::kReasoning ? out_.reasoning : out_.content;
  if (!body_has_text_ && !target.empty()) target += row_.row.channels.joiner;
  body_has_text_ = true;
  AppendText(inner, target);
}

void ChannelMachine::AddBody(size_t limit) {
  if (body_ == Body::kCall && !BeginArguments(limit)) return;
  if (body_ != Body::kCall) {
    AddText(std::string_view(in_).substr(at_, limit - at_));
    at_ = hold_ = limit;
    return;
  }
  size_t last = limit;
  const size_t from = std::max(scan_, at_);
  while (last > from && kWhiteSpace.find(in_[last - 1]) != std::string_view::npos) --last;
  if (last == from) return;
  AddArguments(std::string_view(in_).substr(at_, last - at_));
  at_ = last;
  if (committed_) hold_ = at_;
}

// Returns false while it is undecided whether the arguments begin.
bool ChannelMachine::BeginArguments(size_t limit) {
  if (begun_) return true;
  const size_t first = in_.find_first_not_of(kWhiteSpace, at_);
  at_ = std::min(first, limit);
  if (at_ == limit) return false;
  if (in_[at_] == '{') {
    CommitCall();
  } else {
    GiveUpCall();
  }
  return true;
}

// Turns the call's text, including text that follows later, into content.
void ChannelMachine::GiveUpCall() {
  out_.malformed = true;
  BeginCall();
  body_ = Body::kContent;
  raw_ = true;
  at_ = hold_;
}

void ChannelMachine::EndBody(std::string_view end) {
  const size_t at = scan_;
  if (body_ == Body::kCall) {
    const auto arguments = base::ParseJson(call().arguments_json);
    if (begun_ && arguments.ok()) {
      EndCall();
    } else if (committed_) {
      out_.malformed = true;
      EndCall();
    } else {
      GiveUpCall();
      AddText(std::string_view(in_).substr(at_, at - at_));
    }
  }
  at_ = at;
  const bool begins_next = end == row_.start || end == row_.channel;
  if (!begins_next) {
    if (raw_) AddText(end);
    at_ += end.size();
  }
  hold_ = at_;
}

}  // namespace ingot::text
