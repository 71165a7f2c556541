#include "text/tokenizer/pre_tokenizer.h"

#include <optional>

#include "base/printable.h"
#include "text/tokenizer/alphabet_tokenizer.h"
#include "text/unicode/unicode.h"

namespace ingot::text {
namespace {

using base::Find;
namespace json = base::json;

enum class Behavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

// A match of a pattern, or the text between two matches.
struct Span {
  size_t begin;
  size_t end;
  bool is_match;
};

// Joins consecutive spans according to the behavior and passes them on. The spans arrive in order.
class Joiner {
 public:
  Joiner(Behavior behavior, const Piece& piece, PieceSink& sink) : behavior_(behavior), piece_(piece), sink_(sink) {}

  void Accept(const Span& span) {
    switch (behavior_) {
      case Behavior::kIsolated:
        return Emit(span);
      case Behavior::kRemoved:
        if (!span.is_match) Emit(span);
        return;
      case Behavior::kContiguous:
        return JoinOrEmit(span, held_ && span.is_match == last_is_match_);
      case Behavior::kMergedWithPrevious:
        return JoinOrEmit(span, held_ && span.is_match && !last_is_match_);
      case Behavior::kMergedWithNext:
        return JoinOrEmit(span, held_ && last_is_match_ && !span.is_match);
    }
  }
  void Finish() {
    if (held_) Emit(*held_);
  }

 private:
  void JoinOrEmit(const Span& span, bool join) {
    if (join) {
      held_->end = span.end;
    } else {
      if (held_) Emit(*held_);
      held_ = span;
    }
    last_is_match_ = span.is_match;
  }
  void Emit(const Span& span) {
    sink_.Accept({piece_.text.substr(span.begin, span.end - span.begin), piece_.starts_text && span.begin == 0});
  }

  const Behavior behavior_;
  const Piece& piece_;
  PieceSink& sink_;
  std::optional<Span> held_;
  bool last_is_match_ = false;
};

void SplitByPattern(const SplitPattern& pattern, Behavior behavior, bool invert, const Piece& piece, PieceSink& sink) {
  Joiner joiner(behavior, piece, sink);
  MatchIterator matches(pattern, piece.text);
  size_t done = 0;
  for (Regex::Match match; matches.Next(&match); done = match.end) {
    if (match.begin > done) joiner.Accept({done, match.begin, invert});
    joiner.Accept({match.begin, match.end, !invert});
  }
  if (done < piece.text.size()) joiner.Accept({done, piece.text.size(), invert});
  joiner.Finish();
}

class SplitStage final : public PreTokenizer {
 public:
  SplitStage(std::shared_ptr<const SplitPattern> pattern, Behavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}
  void Run(const Piece& piece, PieceSink& sink) const override {
    SplitByPattern(*pattern_, behavior_, invert_, piece, sink);
  }
  Shrinkage shrinkage() const override { return {.drops_text = behavior_ == Behavior::kRemoved}; }

 private:
  const std::shared_ptr<const SplitPattern> pattern_;
  const Behavior behavior_;
  const bool invert_;
};

// Splits at characters. Every character that `has` accepts is one match.
class SplitCharacters final : public PreTokenizer {
 public:
  SplitCharacters(std::function<bool(uint32_t)> has, Behavior behavior) : has_(std::move(has)), behavior_(behavior) {}
  Shrinkage shrinkage() const override {
    const bool removes = behavior_ == Behavior::kRemoved;
    return {.drops_spaces = removes && has_(' '), .drops_text = removes && !has_(' ')};
  }
  void Run(const Piece& piece, PieceSink& sink) const override {
    Joiner joiner(behavior_, piece, sink);
    size_t done = 0;
    for (size_t at = 0; at < piece.text.size();) {
      const CodePoint c = DecodeAt(piece.text, at);
      if (has_(c.value)) {
        if (at > done) joiner.Accept({done, at, false});
        done = at + c.size;
        joiner.Accept({at, done, true});
      }
      at += c.size;
    }
    if (done < piece.text.size()) joiner.Accept({done, piece.text.size(), false});
    joiner.Finish();
  }

 private:
  const std::function<bool(uint32_t)> has_;
  const Behavior behavior_;
};

class ByteLevel final : public PreTokenizer {
 public:
  ByteLevel(bool add_prefix_space, bool use_regex, bool spell)
      : add_prefix_space_(add_prefix_space), use_regex_(use_regex), spell_(spell) {}

  void Run(const Piece& piece, PieceSink& sink) const override {
    if (add_prefix_space_ && !piece.text.empty() && piece.text[0] != ' ') {
      const std::string prefixed = " " + std::string(piece.text);
      return Cut({prefixed, piece.starts_text}, sink);
    }
    Cut(piece, sink);
  }

 private:
  class Speller final : public PieceSink {
   public:
    explicit Speller(PieceSink& sink) : sink_(sink) {}
    void Accept(const Piece& piece) override {
      const std::string spelled = SpellBytes(piece.text);
      sink_.Accept({spelled, piece.starts_text});
    }

   private:
    PieceSink& sink_;
  };

  void Cut(const Piece& piece, PieceSink& sink) const {
    static const auto* const gpt2 = new std::shared_ptr<const SplitPattern>(KnownPattern(kGpt2Pattern));
    Speller speller(sink);
    PieceSink& out = spell_ ? static_cast<PieceSink&>(speller) : sink;
    if (!use_regex_) return out.Accept(piece);
    SplitByPattern(**gpt2, Behavior::kIsolated, false, piece, out);
  }

  const bool add_prefix_space_;
  const bool use_regex_;
  const bool spell_;
};

class Metaspace final : public PreTokenizer {
 public:
  enum class Prepend { kFirst, kNever, kAlways };
  Metaspace(std::string replacement, Prepend prepend, bool split)
      : replacement_(std::move(replacement)),
        prepend_(prepend),
        split_(split),
        pattern_(LiteralPattern(replacement_)) {}

  void Run(const Piece& piece, PieceSink& sink) const override {
    if (piece.text.empty()) return;
    std::string text;
    const bool has_one = piece.text[0] == ' ' || piece.text.substr(0, replacement_.size()) == replacement_;
    const bool wanted = prepend_ == Prepend::kAlways || (prepend_ == Prepend::kFirst && piece.starts_text);
    if (wanted && !has_one) text = replacement_;
    for (const char c : piece.text) {
      if (c == ' ') {
        text += replacement_;
      } else {
        text += c;
      }
    }
    const Piece replaced{text, piece.starts_text};
    if (!split_) return sink.Accept(replaced);
    SplitByPattern(*pattern_, Behavior::kMergedWithNext, false, replaced, sink);
  }

 private:
  const std::string replacement_;
  const Prepend prepend_;
  const bool split_;
  const std::shared_ptr<const SplitPattern> pattern_;
};

absl::StatusOr<Behavior> ReadBehavior(const json::value& component, std::string_view where) {
  INGOT_ASSIGN_OR_RETURN(const std::string name, ReadString(component, "behavior", where));
  if (name == "Removed") return Behavior::kRemoved;
  if (name == "Isolated") return Behavior::kIsolated;
  if (name == "MergedWithPrevious") return Behavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return Behavior::kMergedWithNext;
  if (name == "Contiguous") return Behavior::kContiguous;
  return MalformedComponent(absl::StrCat(base::View(where), " has the unknown behavior '", name, "'"));
}

using Stages = std::vector<std::unique_ptr<const PreTokenizer>>;

absl::Status ReadMetaspace(const json::value& component, Stages& stages) {
  constexpr std::string_view kWhere = "pre_tokenizer Metaspace";
  INGOT_ASSIGN_OR_RETURN(const std::string replacement, ReadString(component, "replacement", kWhere));
  if (replacement.empty() || DecodeAt(replacement, 0).size != replacement.size()) {
    return MalformedComponent("pre_tokenizer Metaspace needs a replacement of one character");
  }
  INGOT_ASSIGN_OR_RETURN(const bool split, ReadBool(component, "split", true, kWhere));
  INGOT_ASSIGN_OR_RETURN(const bool add_prefix, ReadBool(component, "add_prefix_space", true, kWhere));
  auto prepend = Metaspace::Prepend::kAlways;
  if (Find(component, "prepend_scheme") != nullptr) {
    INGOT_ASSIGN_OR_RETURN(const std::string scheme, ReadString(component, "prepend_scheme", kWhere));
    if (scheme == "first") {
      prepend = Metaspace::Prepend::kFirst;
    } else if (scheme == "never") {
      prepend = Metaspace::Prepend::kNever;
    } else if (scheme != "always") {
      return MalformedComponent(absl::StrCat("pre_tokenizer Metaspace has the unknown prepend_scheme '", scheme, "'"));
    }
  }
  if (!add_prefix && prepend != Metaspace::Prepend::kNever) {
    return MalformedComponent("pre_tokenizer Metaspace: add_prefix_space contradicts prepend_scheme");
  }
  stages.push_back(std::make_unique<Metaspace>(replacement, prepend, split));
  return absl::OkStatus();
}

absl::Status ReadCharacterSplit(const json::value& component, const std::string& type, Stages& stages) {
  const auto add = [&](std::function<bool(uint32_t)> has, Behavior behavior) {
    stages.push_back(std::make_unique<SplitCharacters>(std::move(has), behavior));
  };
  const auto is_space = [](uint32_t c) { return (Unicode().FlagsOf(c) & kSpace) != 0; };
  if (type == "Digits") {
    INGOT_ASSIGN_OR_RETURN(const bool each, ReadBool(component, "individual_digits", false, "pre_tokenizer Digits"));
    add(IsNumeric, each ? Behavior::kIsolated : Behavior::kContiguous);
  } else if (type == "Punctuation") {
    Behavior behavior = Behavior::kIsolated;
    if (Find(component, "behavior") != nullptr) {
      INGOT_ASSIGN_OR_RETURN(behavior, ReadBehavior(component, "pre_tokenizer Punctuation"));
    }
    add(IsPunctuation, behavior);
  } else if (type == "WhitespaceSplit") {
    add(is_space, Behavior::kRemoved);
  } else if (type == "BertPreTokenizer") {
    add(is_space, Behavior::kRemoved);
    add(IsPunctuation, Behavior::kIsolated);
  } else {
    return UnsupportedComponent(absl::StrCat("pre_tokenizer ", type));
  }
  return absl::OkStatus();
}

struct Reader {
  Stages stages;
  std::vector<size_t> byte_levels;                  // their indices in `stages`
  std::vector<std::pair<bool, bool>> byte_options;  // of each: add_prefix_space, use_regex

  absl::Status Read(const json::value& component, int depth) {
    const std::string type = TypeOf(component);
    if (type == "Sequence") {
      const json::value* list = Find(component, "pretokenizers");
      if (list == nullptr || !list->is_array() || depth > 8) {
        return MalformedComponent("pre_tokenizer Sequence needs a list of pretokenizers, nested at most 8 levels deep");
      }
      for (const json::value& item : list->get_array()) INGOT_RETURN_IF_ERROR(Read(item, depth + 1));
      return absl::OkStatus();
    }
    if (type == "Split") {
      INGOT_ASSIGN_OR_RETURN(auto pattern, ReadPattern(component, "pre_tokenizer Split"));
      INGOT_ASSIGN_OR_RETURN(const Behavior behavior, ReadBehavior(component, "pre_tokenizer Split"));
      INGOT_ASSIGN_OR_RETURN(const bool invert, ReadBool(component, "invert", false, "pre_tokenizer Split"));
      stages.push_back(std::make_unique<SplitStage>(std::move(pattern), behavior, invert));
      return absl::OkStatus();
    }
    if (type == "ByteLevel") {
      INGOT_ASSIGN_OR_RETURN(const bool prefix,
                             ReadBool(component, "add_prefix_space", true, "pre_tokenizer ByteLevel"));
      INGOT_ASSIGN_OR_RETURN(const bool regex, ReadBool(component, "use_regex", true, "pre_tokenizer ByteLevel"));
      byte_levels.push_back(stages.size());
      byte_options.push_back({prefix, regex});
      stages.push_back(nullptr);
      return absl::OkStatus();
    }
    if (type == "Metaspace") return ReadMetaspace(component, stages);
    return ReadCharacterSplit(component, type, stages);
  }
};

// Passes pieces to the next stage. The last stage's pieces go to `end`.
class StageSink final : public PieceSink {
 public:
  StageSink(const PreTokenizerStages& stages, size_t next, PieceSink& end) : stages_(stages), next_(next), end_(end) {}
  void Accept(const Piece& piece) override {
    if (piece.text.empty()) return;
    if (next_ == stages_.stages.size()) return end_.Accept(piece);
    StageSink after(stages_, next_ + 1, end_);
    stages_.stages[next_]->Run(piece, after);
  }

 private:
  const PreTokenizerStages& stages_;
  const size_t next_;
  PieceSink& end_;
};

}  // namespace

absl::StatusOr<PreTokenizerStages> ReadPreTokenizer(const json::value* json, bool allow_bytes) {
  PreTokenizerStages result;
  if (IsNullOrMissing(json)) return result;
  Reader reader;
  INGOT_RETURN_IF_ERROR(reader.Read(*json, 0));
  result.byte_level =
      allow_bytes && reader.byte_levels.size() == 1 && reader.byte_levels[0] + 1 == reader.stages.size();
  for (size_t i = 0; i < reader.byte_levels.size(); ++i) {
    const auto [prefix, regex] = reader.byte_options[i];
    reader.stages[reader.byte_levels[i]] = std::make_unique<ByteLevel>(prefix, regex, !result.byte_level);
  }
  result.stages = std::move(reader.stages);
  return result;
}

void RunStages(const PreTokenizerStages& stages, const Piece& piece, PieceSink& sink) {
  StageSink(stages, 0, sink).Accept(piece);
}

std::string SpellBytes(std::string_view text) {
  std::string spelled;
  spelled.reserve(text.size() * 2);
  for (const char c : text) spelled += ByteSpelling()[static_cast<uint8_t>(c)];
  return spelled;
}

absl::StatusOr<std::shared_ptr<const SplitPattern>> ReadPattern(const json::value& component, std::string_view where) {
  const json::value* pattern = Find(component, "pattern");
  if (pattern != nullptr) {
    const json::value* literal = Find(*pattern, "String");
    if (literal != nullptr && literal->is_string() && !literal->get_string().empty()) {
      return LiteralPattern(std::string(literal->get_string()));
    }
    const json::value* regex = Find(*pattern, "Regex");
    if (regex != nullptr && regex->is_string()) {
      auto compiled = RegexPattern(std::string_view(regex->get_string()));
      if (!compiled.ok()) return base::Annotate(compiled.status(), absl::StrCat("tokenizer.json: ", base::View(where)));
      return compiled;
    }
  }
  return MalformedComponent(absl::StrCat(base::View(where), " needs a pattern: {\"String\"|\"Regex\": text}"));
}

absl::StatusOr<bool> ReadBool(const json::value& component, std::string_view field, bool otherwise,
                              std::string_view where) {
  const json::value* value = Find(component, field);
  if (IsNullOrMissing(value)) return otherwise;
  if (!value->is_bool()) {
    return MalformedComponent(absl::StrCat(base::View(where), ": ", base::View(field), " must be true or false"));
  }
  return value->get_bool();
}

absl::StatusOr<std::string> ReadString(const json::value& component, std::string_view field, std::string_view where) {
  const json::value* value = Find(component, field);
  if (value == nullptr || !value->is_string()) {
    return MalformedComponent(absl::StrCat(base::View(where), ": ", base::View(field), " must be a string"));
  }
  return std::string(value->get_string());
}

std::string TypeOf(const json::value& component) {
  const json::value* type = Find(component, "type");
  return type != nullptr && type->is_string() ? std::string(type->get_string()) : "(no type)";
}

bool IsNullOrMissing(const json::value* value) { return value == nullptr || value->is_null(); }

absl::Status UnsupportedComponent(std::string_view component) {
  return absl::UnimplementedError(absl::StrCat("tokenizer.json: ", base::Shown(component), " is not supported"));
}

absl::Status MalformedComponent(std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("tokenizer.json: ", base::CutMessage(what)));
}

}  // namespace ingot::text
