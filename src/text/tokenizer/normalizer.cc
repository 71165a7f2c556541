#include "text/tokenizer/normalizer.h"

#include "text/tokenizer/pre_tokenizer.h"
#include "text/tokenizer/split_pattern.h"
#include "text/unicode/unicode.h"

namespace ingot::text {
namespace {

using base::Find;
namespace json = base::json;

class ToNormalForm final : public Normalizer {
 public:
  explicit ToNormalForm(NormalForm form) : form_(form) {}
  std::string Apply(std::string text, bool&) const override { return Normalize(std::move(text), form_); }
  // A code point of at most four bytes decomposes to one byte or more. A decomposition has at most three times the
  // bytes of its composition. An ASCII character stays one character or is composed with the marks after it.
  Shrinkage shrinkage() const override { return {.bytes = 12, .ascii = 1}; }

 private:
  const NormalForm form_;
};

class Lowercase final : public Normalizer {
 public:
  std::string Apply(std::string text, bool&) const override {
    std::string out;
    out.reserve(text.size());
    for (size_t at = 0; at < text.size();) {
      const CodePoint c = DecodeAt(text, at);
      AppendLowercase(c.value, out);
      at += c.size;
    }
    return out;
  }
  Shrinkage shrinkage() const override { return {.bytes = 4, .ascii = 1}; }
};

class Strip final : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  std::string Apply(std::string text, bool& keeps_start) const override {
    const auto is_space = [&](size_t at) { return (Unicode().FlagsOf(DecodeAt(text, at).value) & kSpace) != 0; };
    size_t begin = 0;
    size_t end = text.size();
    while (left_ && begin < end && is_space(begin)) begin += DecodeAt(text, begin).size;
    while (right_ && end > begin && is_space(base::StartOf(text, end - 1))) end = base::StartOf(text, end - 1);
    if (begin > 0) keeps_start = false;
    return text.substr(begin, end - begin);
  }
  Shrinkage shrinkage() const override { return {.drops_spaces = true}; }

 private:
  const bool left_;
  const bool right_;
};

class Replace final : public Normalizer {
 public:
  // `literal` is the pattern's length in bytes if it is a literal; 0 = it may match any number of bytes.
  Replace(std::shared_ptr<const SplitPattern> pattern, size_t literal, std::string content)
      : pattern_(std::move(pattern)), literal_(literal), content_(std::move(content)) {}
  std::string Apply(std::string text, bool& keeps_start) const override {
    std::string out;
    out.reserve(text.size() + text.size() / 4);
    size_t done = 0;
    MatchIterator matches(*pattern_, text);
    for (Regex::Match match; matches.Next(&match); done = match.end) {
      out.append(text, done, match.begin - done);
      out += content_;
      const bool at_start = match.begin == 0 && match.end > 0;
      if (at_start && (content_.empty() || match.end > DecodeAt(text, 0).size)) keeps_start = false;
    }
    out.append(text, done);
    return out;
  }
  Shrinkage shrinkage() const override {
    if (literal_ == 0 || content_.empty()) return {.drops_text = true};
    const size_t most = (literal_ + content_.size() - 1) / content_.size();
    return {.bytes = most, .ascii = most};
  }

 private:
  const std::shared_ptr<const SplitPattern> pattern_;
  const size_t literal_;
  const std::string content_;
};

class Prepend final : public Normalizer {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}
  std::string Apply(std::string text, bool&) const override { return text.empty() ? text : prefix_ + text; }

 private:
  const std::string prefix_;
};

class Spell final : public Normalizer {
 public:
  std::string Apply(std::string text, bool&) const override { return SpellBytes(text); }
};

absl::Status Read(const json::value& component, int depth, NormalizerChain& chain) {
  const std::string type = TypeOf(component);
  auto& stages = chain.stages;
  if (type == "Sequence") {
    const json::value* list = Find(component, "normalizers");
    if (list == nullptr || !list->is_array() || depth > 8) {
      return MalformedComponent("normalizer Sequence needs a list of normalizers, nested at most 8 levels deep");
    }
    for (const json::value& item : list->get_array()) INGOT_RETURN_IF_ERROR(Read(item, depth + 1, chain));
  } else if (type == "NFC") {
    stages.push_back(std::make_unique<ToNormalForm>(NormalForm::kNfc));
  } else if (type == "NFD") {
    stages.push_back(std::make_unique<ToNormalForm>(NormalForm::kNfd));
  } else if (type == "NFKC") {
    stages.push_back(std::make_unique<ToNormalForm>(NormalForm::kNfkc));
  } else if (type == "NFKD") {
    stages.push_back(std::make_unique<ToNormalForm>(NormalForm::kNfkd));
  } else if (type == "Lowercase") {
    stages.push_back(std::make_unique<Lowercase>());
  } else if (type == "Strip") {
    INGOT_ASSIGN_OR_RETURN(const bool left, ReadBool(component, "strip_left", false, "normalizer Strip"));
    INGOT_ASSIGN_OR_RETURN(const bool right, ReadBool(component, "strip_right", false, "normalizer Strip"));
    stages.push_back(std::make_unique<Strip>(left, right));
  } else if (type == "Replace") {
    INGOT_ASSIGN_OR_RETURN(auto pattern, ReadPattern(component, "normalizer Replace"));
    INGOT_ASSIGN_OR_RETURN(std::string content, ReadString(component, "content", "normalizer Replace"));
    const json::value* literal = Find(*Find(component, "pattern"), "String");
    const size_t size = literal != nullptr && literal->is_string() ? literal->get_string().size() : 0;
    stages.push_back(std::make_unique<Replace>(std::move(pattern), size, std::move(content)));
  } else if (type == "Prepend") {
    INGOT_ASSIGN_OR_RETURN(std::string prefix, ReadString(component, "prepend", "normalizer Prepend"));
    stages.push_back(std::make_unique<Prepend>(std::move(prefix)));
  } else if (type == "ByteLevel") {
    chain.spells_bytes = true;
    stages.push_back(std::make_unique<Spell>());
  } else {
    return UnsupportedComponent(absl::StrCat("normalizer ", type));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<NormalizerChain> ReadNormalizer(const json::value* json) {
  NormalizerChain chain;
  if (!IsNullOrMissing(json)) INGOT_RETURN_IF_ERROR(Read(*json, 0, chain));
  return chain;
}

std::string RunNormalizers(const NormalizerChain& chain, std::string text, bool* keeps_start) {
  bool keeps = true;
  for (const auto& stage : chain.stages) text = stage->Apply(std::move(text), keeps);
  if (keeps_start != nullptr) *keeps_start = keeps;
  return text;
}

}  // namespace ingot::text
