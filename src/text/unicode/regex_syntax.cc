// Translates Oniguruma's Ruby syntax to PCRE2. A recursive descent parser copies everything that has the same meaning
// in both.
#include <optional>
#include <vector>

#include "text/unicode/regex.h"
#include "text/unicode/regex_sets.h"
#include "text/unicode/unicode.h"

namespace ingot::text {
namespace {

constexpr int kMaxDepth = 100;

// A set of characters in PCRE2 syntax, for use between [ and ].
struct Set {
  std::string items;
  bool negated = false;  // the set contains every character except `items`
};

absl::Status Unsupported(std::string_view what) {
  return absl::UnimplementedError(absl::StrCat("regular expression: ", base::View(what), " is not supported"));
}

class Translator {
 public:
  explicit Translator(std::string_view pattern) : in_(pattern) {}

  absl::StatusOr<std::string> Run() {
    INGOT_RETURN_IF_ERROR(Alternatives(0));
    if (at_ < in_.size()) return Malformed("a ) without (");
    return std::move(out_);
  }

 private:
  bool More() const { return at_ < in_.size(); }
  bool Next(std::string_view text) const { return in_.substr(at_, text.size()) == text; }
  bool Consume(std::string_view text) {
    if (!Next(text)) return false;
    at_ += text.size();
    return true;
  }
  absl::Status Malformed(std::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat("regular expression '", base::View(in_), "': ", base::View(what), " at byte ", at_));
  }

  absl::Status Alternatives(int depth) {
    if (depth > kMaxDepth) return Unsupported("nesting deeper than 100");
    bool first = true;  // in Ruby, a bare (?i) applies to the end of its alternatives only at their start
    while (More() && !Next(")")) {
      if (Consume("|")) {
        out_ += '|';
        first = false;
        continue;
      }
      const size_t atom = out_.size();
      INGOT_RETURN_IF_ERROR(Atom(depth, first));
      INGOT_RETURN_IF_ERROR(Quantifiers(atom));
      first = false;
    }
    return absl::OkStatus();
  }

  absl::Status Atom(int depth, bool first) {
    if (Next("(")) return Group(depth, first);
    if (Consume("[")) {
      INGOT_ASSIGN_OR_RETURN(const std::string set, Class(depth));
      out_ += set;
      return absl::OkStatus();
    }
    if (Consume("\\")) return Escape();
    if (Next("*") || Next("+") || Next("?")) return Malformed("a quantifier without an operand");
    const size_t size = DecodeAt(in_, at_).size;
    if (size == 1 && (in_[at_] == '#' || in_[at_] == ']' || in_[at_] == '}' || in_[at_] == '{')) out_ += '\\';
    out_ += in_.substr(at_, size);
    at_ += size;
    return absl::OkStatus();
  }

  absl::Status Group(int depth, bool first) {
    for (const char* same : {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>"}) {
      if (Consume(same)) return GroupBody(same, depth);
    }
    if (Consume("(?#")) return Unsupported("a comment (?#...)");
    if (Next("(?<") || Next("(?'")) return Unsupported("a named group");
    if (!Consume("(?")) {
      ++at_;
      return GroupBody("(?:", depth);  // captures are never read
    }
    std::string options;
    bool on = true;
    for (; More() && !Next(")") && !Next(":"); ++at_) {
      const char option = in_[at_];
      if (option == '-') {
        on = false;
        options += '-';
      } else if (option == 'i') {
        options += option;
      } else if (option == 'm') {
        options += 's';  // PCRE2's name for Ruby's m
      } else {
        return Unsupported(absl::StrCat("the option '", std::string(1, option), "' of (?", on ? "" : "-", "...)"));
      }
    }
    if (Consume(":")) return GroupBody("(?" + options + ":", depth);
    if (!Consume(")")) return Malformed("a group without )");
    if (!first) return Unsupported("the option (?i) in the middle of a group");
    out_ += "(?" + options + ")";
    return absl::OkStatus();
  }

  absl::Status GroupBody(const std::string& open, int depth) {
    out_ += open;
    INGOT_RETURN_IF_ERROR(Alternatives(depth + 1));
    if (!Consume(")")) return Malformed("a group without )");
    out_ += ')';
    return absl::OkStatus();
  }

  absl::Status Quantifiers(size_t atom) {
    while (More()) {
      std::string quantifier;
      bool interval = false;
      if (Consume("*") || Consume("+") || Consume("?")) {
        quantifier = in_[at_ - 1];
      } else if (Next("{") && TakeInterval(quantifier)) {
        interval = true;
      } else {
        break;
      }
      if (More() && (Next("?") || (Next("+") && !interval))) {
        if (interval && quantifier.find(',') == std::string::npos) {  // {n}? is {0,n} in Ruby
          return Unsupported("a quantifier {n}?");
        }
        quantifier += in_[at_++];
      }
      // A second quantifier, such as the + of {1,3}+ in Ruby, applies to the quantified atom as a group.
      if (quantified_ == atom && quantified_end_ == out_.size()) {
        out_.insert(atom, "(?:");
        out_ += ')';
      }
      out_ += quantifier;
      quantified_ = atom;
      quantified_end_ = out_.size();
    }
    return absl::OkStatus();
  }

  // Reads {n}, {n,}, {,m} or {n,m}. Returns false if the brace is literal.
  bool TakeInterval(std::string& quantifier) {
    const size_t end = in_.find('}', at_);
    if (end == std::string_view::npos) return false;
    const std::string_view body = in_.substr(at_ + 1, end - at_ - 1);
    const size_t comma = body.find(',');
    const std::string_view low = body.substr(0, comma);
    const std::string_view high = comma == std::string_view::npos ? std::string_view() : body.substr(comma + 1);
    if (body.empty() || body == "," || low.size() > 5 || high.size() > 5) return false;
    for (const char c : std::string(low) + std::string(high)) {
      if (c < '0' || c > '9') return false;
    }
    quantifier = absl::StrCat("{", low.empty() ? "0" : std::string(low),
                              comma == std::string_view::npos ? "" : "," + std::string(high), "}");
    at_ = end + 1;
    return true;
  }

  // Translates an escape outside a class, starting after the backslash.
  absl::Status Escape() {
    if (!More()) return Malformed("a backslash at the end");
    const char c = in_[at_];
    if (c == 'A' || c == 'z' || c == 'Z') {
      ++at_;
      out_ += {'\\', c};
      return absl::OkStatus();
    }
    if (c == 'b' || c == 'B') {
      ++at_;
      const std::string word = "[" + WordItems(false) + "]";
      const std::string either = "(?:(?<=" + word + ")(?!" + word + ")|(?<!" + word + ")(?=" + word + "))";
      out_ += c == 'b' ? either : "(?!" + either + ")";
      return absl::OkStatus();
    }
    INGOT_ASSIGN_OR_RETURN(const Set set, EscapedSet(false));
    out_ += (set.negated ? "[^" : "[") + set.items + "]";
    return absl::OkStatus();
  }

  // Returns a set or a single character, starting after a backslash.
  absl::StatusOr<Set> EscapedSet(bool in_class) {
    if (!More()) return Malformed("a backslash at the end");
    const char c = in_[at_++];
    switch (c) {
      case 's':
      case 'S':
        return Set{SpaceItems(), c == 'S'};
      case 'w':
      case 'W':
        return Set{WordItems(in_class), c == 'W'};
      case 'd':
      case 'D':
        return Set{*CategoryItems("Nd"), c == 'D'};
      case 'h':
      case 'H':
        return Set{"0-9a-fA-F", c == 'H'};
      case 'p':
      case 'P':
        return Property(c == 'P');
      case 'n':
        return Set{HexEscape(10)};
      case 't':
        return Set{HexEscape(9)};
      case 'r':
        return Set{HexEscape(13)};
      case 'f':
        return Set{HexEscape(12)};
      case 'v':
        return Set{HexEscape(11)};
      case 'a':
        return Set{HexEscape(7)};
      case 'e':
        return Set{HexEscape(27)};
      case 'x':
        if (Consume("{")) return HexNumber(8, true);
        return HexNumber(2, false);
      case 'u':
        return HexNumber(4, false);
      default:
        break;
    }
    const auto byte = static_cast<uint8_t>(c);
    if (byte >= 0x80) {
      --at_;
      const CodePoint point = DecodeAt(in_, at_);
      at_ += point.size;
      return Set{HexEscape(point.value)};
    }
    if (std::isalnum(byte)) return Unsupported(absl::StrCat("\\", std::string(1, c)));
    return Set{HexEscape(byte)};
  }

  absl::StatusOr<Set> HexNumber(size_t most, bool braced) {
    uint32_t value = 0;
    size_t digits = 0;
    for (; More() && digits < most && std::isxdigit(static_cast<uint8_t>(in_[at_])); ++at_, ++digits) {
      const char c = in_[at_];
      value = value * 16 + static_cast<uint32_t>(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
    }
    if (digits == 0 || (braced && !Consume("}")) || value >= 0x110000 || (value >= 0xD800 && value < 0xE000)) {
      return Malformed("a hexadecimal escape that is not a character");
    }
    return Set{HexEscape(value)};
  }

  absl::StatusOr<Set> Property(bool negated) {
    if (!Consume("{")) return Malformed("\\p without {");
    if (Consume("^")) negated = !negated;
    const size_t end = in_.find('}', at_);
    if (end == std::string_view::npos) return Malformed("\\p{ without }");
    const std::string_view name = in_.substr(at_, end - at_);
    at_ = end + 1;
    std::optional<std::string> items = CategoryItems(name);
    if (!items) items = ScriptItems(name);
    if (!items) return Unsupported(absl::StrCat("the property '", base::View(name), "'"));
    return Set{*items, negated};
  }

  // Reads a class, starting after '['. Returns a pattern that matches one character: a single [...] if possible, or
  // lookaheads for classes that are nested, intersected, or contain a negated set.
  absl::StatusOr<std::string> Class(int depth) {
    if (depth > kMaxDepth) return Unsupported("nesting deeper than 100");
    const bool negated = Consume("^");
    std::vector<std::string> terms;  // the operands of &&, except the last
    std::string items;
    std::vector<std::string> others;  // alternatives to `items`
    bool first = true;
    while (true) {
      if (!More()) return Malformed("a class without ]");
      if (Next("]") && !first) break;
      first = false;
      if (Consume("&&")) {
        terms.push_back(Union(items, others));
        items.clear();
        others.clear();
      } else if (Consume("[:")) {
        INGOT_RETURN_IF_ERROR(Posix(items, others));
      } else if (Consume("[")) {
        INGOT_ASSIGN_OR_RETURN(std::string nested, Class(depth + 1));
        others.push_back(std::move(nested));
      } else {
        INGOT_RETURN_IF_ERROR(ClassItem(items, others));
      }
    }
    ++at_;
    if (terms.empty() && others.empty()) return (negated ? "[^" : "[") + items + "]";
    std::string all;
    for (const std::string& term : terms) all += "(?=" + term + ")";
    all += Union(items, others);
    return negated ? "(?:(?!" + all + ")(?s:.))" : "(?:" + all + ")";
  }

  static std::string Union(const std::string& items, const std::vector<std::string>& others) {
    if (others.empty()) return items.empty() ? "(?!)" : "[" + items + "]";
    std::string all = "(?:";
    if (!items.empty()) all += "[" + items + "]|";
    for (size_t i = 0; i < others.size(); ++i) all += (i > 0 ? "|" : "") + others[i];
    return all + ")";
  }

  static void Add(const Set& set, std::string& items, std::vector<std::string>& others) {
    if (set.negated) {
      others.push_back("[^" + set.items + "]");
    } else {
      items += set.items;
    }
  }

  absl::Status Posix(std::string& items, std::vector<std::string>& others) {
    const bool negated = Consume("^");
    const size_t end = in_.find(":]", at_);
    if (end == std::string_view::npos) return Malformed("[: without :]");
    const std::string_view name = in_.substr(at_, end - at_);
    at_ = end + 2;
    if (name == "space") {
      Add({SpaceItems(), negated}, items, others);
    } else if (name == "digit") {
      Add({*CategoryItems("Nd"), negated}, items, others);
    } else if (name == "word") {
      Add({WordItems(true), negated}, items, others);
    } else if (name == "xdigit") {
      Add({"0-9a-fA-F", negated}, items, others);
    } else if (name == "punct") {
      Add({*CategoryItems("P") + *CategoryItems("S"), negated}, items, others);
    } else {
      return Unsupported(absl::StrCat("[:", base::View(name), ":]"));
    }
    return absl::OkStatus();
  }

  absl::Status ClassItem(std::string& items, std::vector<std::string>& others) {
    bool single = true;
    INGOT_ASSIGN_OR_RETURN(const Set low, ClassAtom(single));
    if (!single || !Next("-") || in_.substr(at_, 2) == "-]" || in_.substr(at_, 2) == "-[") {
      Add(low, items, others);
      return absl::OkStatus();
    }
    ++at_;
    INGOT_ASSIGN_OR_RETURN(const Set high, ClassAtom(single));
    if (!single) return Unsupported("a range that ends with a set");
    items += low.items + "-" + high.items;
    return absl::OkStatus();
  }

  absl::StatusOr<Set> ClassAtom(bool& single) {
    if (!More()) return Malformed("a class without ]");
    if (Consume("\\")) {
      single = !More() || std::string_view("sSwWdDhHpP").find(in_[at_]) == std::string_view::npos;
      if (Consume("b")) return Set{HexEscape(8)};
      return EscapedSet(true);
    }
    const CodePoint c = DecodeAt(in_, at_);
    at_ += c.size;
    return Set{HexEscape(c.value)};
  }

  const std::string_view in_;
  size_t at_ = 0;
  std::string out_;
  size_t quantified_ = std::string::npos;  // begin and end of the last quantified atom in out_
  size_t quantified_end_ = 0;
};

}  // namespace

absl::StatusOr<std::string> OnigurumaToPcre2(std::string_view pattern) {
  if (!IsValidUtf8(pattern)) return absl::InvalidArgumentError("regular expression: not UTF-8");
  return Translator(pattern).Run();
}

}  // namespace ingot::text
