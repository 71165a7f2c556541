#include "grammar/regex.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "grammar/chars.h"

namespace ingot::grammar {

namespace {

constexpr int kMaxDepth = 100;
constexpr uint32_t kNoLimit = UINT32_MAX;

struct Node {
  enum Kind { kSet, kSequence, kChoice, kRepeat, kStart, kEnd } kind = kSequence;
  CodePoints set;                               // kSet
  std::vector<std::unique_ptr<Node>> children;  // kSequence, kChoice; kRepeat has one
  uint32_t min = 0, max = 0;                    // kRepeat
};
using NodePtr = std::unique_ptr<Node>;

NodePtr MakeSet(CodePoints set) {
  auto node = std::make_unique<Node>();
  node->kind = Node::kSet;
  node->set = std::move(set);
  return node;
}

CodePoints Digits() { return {{'0', '9'}}; }
CodePoints WordCharacters() { return {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}; }
CodePoints Spaces() {
  return {{0x09, 0x0D},     {0x20, 0x20},     {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
          {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
}

class Parser {
 public:
  explicit Parser(std::vector<uint32_t> text) : text_(std::move(text)) {}

  absl::StatusOr<NodePtr> Parse() {
    INGOT_ASSIGN_OR_RETURN(NodePtr node, Choice(0));
    if (at_ < text_.size()) return Fault("has an unmatched ')'");
    return node;
  }

 private:
  absl::Status Fault(const std::string& what) const {
    return absl::InvalidArgumentError(absl::StrCat(what, " (character ", at_, ")"));
  }
  bool Done() const { return at_ >= text_.size(); }
  uint32_t Peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : 0; }
  bool Consume(uint32_t c) {
    if (Done() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  absl::StatusOr<NodePtr> Choice(int depth) {
    if (depth > kMaxDepth) return Fault("nests more than 100 groups");
    auto choice = std::make_unique<Node>();
    choice->kind = Node::kChoice;
    do {
      auto sequence = std::make_unique<Node>();
      while (!Done() && Peek() != '|' && Peek() != ')') {
        INGOT_ASSIGN_OR_RETURN(NodePtr term, Term(depth));
        sequence->children.push_back(std::move(term));
      }
      choice->children.push_back(std::move(sequence));
    } while (Consume('|'));
    return choice;
  }

  absl::StatusOr<NodePtr> Term(int depth) {
    INGOT_ASSIGN_OR_RETURN(NodePtr atom, Atom(depth));
    uint32_t min = 0, max = kNoLimit;
    if (Consume('*')) {
    } else if (Consume('+')) {
      min = 1;
    } else if (Consume('?')) {
      max = 1;
    } else if (Peek() == '{' && Peek(1) >= '0' && Peek(1) <= '9') {
      INGOT_RETURN_IF_ERROR(Counts(&min, &max));
    } else {
      return atom;
    }
    Consume('?');  // a lazy quantifier matches the same strings
    if (Peek() == '*' || Peek() == '+' || Peek() == '?') return Fault("has a quantifier with nothing to repeat");
    if (atom->kind == Node::kStart || atom->kind == Node::kEnd) return Fault("repeats an anchor");
    auto repeat = std::make_unique<Node>();
    repeat->kind = Node::kRepeat;
    repeat->min = min;
    repeat->max = max;
    repeat->children.push_back(std::move(atom));
    return repeat;
  }

  absl::Status Counts(uint32_t* min, uint32_t* max) {
    ++at_;
    const auto number = [&](uint32_t* out) {
      *out = 0;
      while (Peek() >= '0' && Peek() <= '9') *out = std::min<uint32_t>(*out * 10 + (text_[at_++] - '0'), 100'000);
    };
    number(min);
    *max = *min;
    if (Consume(',')) {
      *max = kNoLimit;
      if (Peek() != '}') number(max);
    }
    if (!Consume('}')) return Fault("has a malformed {n,m}");
    if (*min > kMaxRepeat || (*max != kNoLimit && *max > kMaxRepeat)) return Fault("repeats more than 1000 times");
    if (*min > *max) return Fault("has {n,m} with n > m");
    return absl::OkStatus();
  }

  absl::StatusOr<NodePtr> Atom(int depth) {
    const uint32_t c = text_[at_];
    switch (c) {
      case '*':
      case '+':
      case '?':
        return Fault("has a quantifier with nothing to repeat");
      case '^':
      case '$': {
        ++at_;
        auto node = std::make_unique<Node>();
        node->kind = c == '^' ? Node::kStart : Node::kEnd;
        return node;
      }
      case '.':
        ++at_;
        return MakeSet(Complement({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}));
      case '(':
        return Group(depth);
      case '[':
        return Class();
      case '\\': {
        CodePoints set;
        INGOT_RETURN_IF_ERROR(Escape(/*in_class=*/false, &set));
        return MakeSet(std::move(set));
      }
      default:
        ++at_;
        return MakeSet({{c, c}});
    }
  }

  absl::StatusOr<NodePtr> Group(int depth) {
    ++at_;
    if (Consume('?')) {
      if (Peek() == '=' || Peek() == '!' || (Peek() == '<' && (Peek(1) == '=' || Peek(1) == '!'))) {
        return Fault("has a look-around, which is not supported");
      }
      if (Consume('<')) {
        while (!Done() && Peek() != '>') ++at_;
        if (!Consume('>')) return Fault("has a group name without '>'");
      } else if (!Consume(':')) {
        return Fault("has a group with flags, which are not supported");
      }
    }
    INGOT_ASSIGN_OR_RETURN(NodePtr node, Choice(depth + 1));
    if (!Consume(')')) return Fault("has a '(' without ')'");
    return node;
  }

  absl::StatusOr<NodePtr> Class() {
    ++at_;
    const bool negated = Consume('^');
    CodePoints set;
    while (!Consume(']')) {
      if (Done()) return Fault("has a '[' without ']'");
      CodePoints low, high;
      INGOT_RETURN_IF_ERROR(ClassAtom(&low));
      if (Peek() == '-' && at_ + 1 < text_.size() && Peek(1) != ']') {
        ++at_;
        INGOT_RETURN_IF_ERROR(ClassAtom(&high));
        const auto single = [](const CodePoints& s) { return s.size() == 1 && s[0].low == s[0].high; };
        if (!single(low) || !single(high)) {  // not a range, so the hyphen is literal
          set.insert(set.end(), low.begin(), low.end());
          set.insert(set.end(), high.begin(), high.end());
          set.push_back({'-', '-'});
          continue;
        }
        if (low[0].low > high[0].low) return Fault("has a range out of order");
        set.push_back({low[0].low, high[0].low});
      } else {
        set.insert(set.end(), low.begin(), low.end());
      }
    }
    set = Normalize(std::move(set));
    return MakeSet(negated ? Complement(set) : std::move(set));
  }

  absl::Status ClassAtom(CodePoints* set) {
    if (Done()) return Fault("has a '[' without ']'");
    if (Peek() == '\\') return Escape(/*in_class=*/true, set);
    *set = {{text_[at_], text_[at_]}};
    ++at_;
    return absl::OkStatus();
  }

  absl::Status Hex(int digits, uint32_t* value) {
    *value = 0;
    for (int i = 0; i < digits; ++i, ++at_) {
      const uint32_t c = Peek(), lower = c | 0x20;
      const bool decimal = c >= '0' && c <= '9';
      if (!decimal && !(lower >= 'a' && lower <= 'f')) return Fault("has a malformed \\x or \\u escape");
      *value = *value * 16 + (decimal ? c - '0' : lower - 'a' + 10);
    }
    return absl::OkStatus();
  }

  absl::Status Unicode(uint32_t* value) {
    if (Consume('{')) {
      *value = 0;
      for (int i = 0; !Consume('}'); ++i) {
        uint32_t digit = 0;
        if (i == 6) return Fault("has a malformed \\x or \\u escape");
        INGOT_RETURN_IF_ERROR(Hex(1, &digit));
        *value = *value * 16 + digit;
      }
    } else {
      INGOT_RETURN_IF_ERROR(Hex(4, value));
      if (*value >= 0xD800 && *value < 0xDC00 && Peek() == '\\' && Peek(1) == 'u') {
        at_ += 2;
        uint32_t low = 0;
        INGOT_RETURN_IF_ERROR(Hex(4, &low));
        if (low < 0xDC00 || low > 0xDFFF) return Fault("is not a character");
        *value = 0x10000 + ((*value - 0xD800) << 10) + (low - 0xDC00);
      }
    }
    if (*value > kMaxCodePoint || (*value >= 0xD800 && *value < 0xE000)) return Fault("is not a character");
    return absl::OkStatus();
  }

  absl::Status Escape(bool in_class, CodePoints* set) {
    ++at_;
    if (Done()) return Fault("ends in a backslash");
    const uint32_t c = text_[at_++];
    uint32_t value = c;
    switch (c) {
      case 'd':
        *set = Digits();
        return absl::OkStatus();
      case 'D':
        *set = Complement(Digits());
        return absl::OkStatus();
      case 'w':
        *set = WordCharacters();
        return absl::OkStatus();
      case 'W':
        *set = Complement(WordCharacters());
        return absl::OkStatus();
      case 's':
        *set = Spaces();
        return absl::OkStatus();
      case 'S':
        *set = Complement(Spaces());
        return absl::OkStatus();
      case 't':
        value = '\t';
        break;
      case 'n':
        value = '\n';
        break;
      case 'v':
        value = '\v';
        break;
      case 'f':
        value = '\f';
        break;
      case 'r':
        value = '\r';
        break;
      case 'x':
        INGOT_RETURN_IF_ERROR(Hex(2, &value));
        break;
      case 'u':
        INGOT_RETURN_IF_ERROR(Unicode(&value));
        break;
      case '0':
        if (Peek() >= '0' && Peek() <= '9') return Fault("has an octal escape, which is not supported");
        value = 0;
        break;
      case 'b':
        if (!in_class) return Fault("has \\b, which is not supported");
        value = '\b';
        break;
      default:
        if ((c >= '1' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
          return Fault(absl::StrCat("has \\", std::string(1, static_cast<char>(c)), ", which is not supported"));
        }
    }
    *set = {{value, value}};
    return absl::OkStatus();
  }

  const std::vector<uint32_t> text_;
  size_t at_ = 0;
};

class Emitter {
 public:
  Emitter(Nfa& nfa, Budget& budget, Spelling spelling) : nfa_(nfa), budget_(budget), spelling_(spelling) {}

  // Adds `node` at `from`. Returns the state after it, even if the node is empty or matches nothing.
  absl::StatusOr<int32_t> Emit(const Node& node, int32_t from) {
    if (nfa_.size() > budget_.nfa_states)
      return Budget::Spend(budget_.nfa_states, nfa_.size(), "a pattern is too long");
    INGOT_RETURN_IF_ERROR(Budget::Spend(budget_.steps, 1, "a pattern is too long"));
    switch (node.kind) {
      case Node::kSet: {
        const int32_t to = nfa_.AddState();
        AddCharacter(nfa_, from, to, node.set, spelling_);
        return to;
      }
      case Node::kStart:
      case Node::kEnd: {
        const int32_t to = nfa_.AddState();
        nfa_.AddEpsilon(from, to, node.kind == Node::kStart ? Nfa::Epsilon::kAtStart : Nfa::Epsilon::kAtEnd);
        return to;
      }
      case Node::kSequence:
        for (const NodePtr& child : node.children) {
          INGOT_ASSIGN_OR_RETURN(from, Emit(*child, from));
        }
        return from;
      case Node::kChoice: {
        const int32_t to = nfa_.AddState();
        for (const NodePtr& child : node.children) {
          INGOT_ASSIGN_OR_RETURN(const int32_t end, Emit(*child, from));
          nfa_.AddEpsilon(end, to);
        }
        return to;
      }
      case Node::kRepeat:
        return EmitRepeat(node, from);
    }
    return from;
  }

 private:
  absl::StatusOr<int32_t> EmitRepeat(const Node& node, int32_t from) {
    const Node& child = *node.children[0];
    for (uint32_t i = 0; i < node.min; ++i) {
      INGOT_ASSIGN_OR_RETURN(from, Emit(child, from));
    }
    if (node.max == kNoLimit) {
      // The loop has its own state, so edges of `from` do not become part of it.
      const int32_t loop = nfa_.AddState(), after = nfa_.AddState();
      nfa_.AddEpsilon(from, loop);
      INGOT_ASSIGN_OR_RETURN(const int32_t end, Emit(child, loop));
      nfa_.AddEpsilon(end, loop);
      nfa_.AddEpsilon(loop, after);
      return after;
    }
    const int32_t after = nfa_.AddState();
    nfa_.AddEpsilon(from, after);
    for (uint32_t i = node.min; i < node.max; ++i) {
      INGOT_ASSIGN_OR_RETURN(from, Emit(child, from));
      nfa_.AddEpsilon(from, after);
    }
    return after;
  }

  Nfa& nfa_;
  Budget& budget_;
  const Spelling spelling_;
};

absl::StatusOr<NodePtr> ParsePattern(std::string_view pattern) {
  if (!base::IsValidUtf8(pattern)) return absl::InvalidArgumentError("is not valid UTF-8");
  std::vector<uint32_t> text;
  for (size_t at = 0; at < pattern.size();) text.push_back(base::NextCharacter(pattern, at));
  return Parser(std::move(text)).Parse();
}

}  // namespace

absl::Status CheckPattern(std::string_view pattern) { return ParsePattern(pattern).status(); }

absl::StatusOr<Dfa> PatternDfa(std::string_view pattern, Budget& budget, Spelling spelling) {
  INGOT_ASSIGN_OR_RETURN(const NodePtr root, ParsePattern(pattern));
  Nfa nfa;
  // Any text may come before and after the match, unless an anchor forbids it.
  const int32_t start = nfa.AddState(), skip = nfa.AddState(), first = nfa.AddState();
  nfa.AddEpsilon(start, skip);
  nfa.AddEpsilon(skip, first);
  AddCharacter(nfa, skip, skip, AllCodePoints(), spelling);
  INGOT_ASSIGN_OR_RETURN(const int32_t end, Emitter(nfa, budget, spelling).Emit(*root, first));
  const int32_t accept = nfa.AddState();
  nfa.AddEpsilon(end, accept);
  AddCharacter(nfa, accept, accept, AllCodePoints(), spelling);
  return Determinize(nfa, start, accept, budget);
}

absl::StatusOr<Dfa> LengthDfa(uint32_t min, uint32_t max, Budget& budget, Spelling spelling) {
  Nfa nfa;
  const int32_t start = nfa.AddState(), accept = nfa.AddState();
  int32_t from = start;
  const uint32_t chain = max == kNoLimit ? min : max;
  INGOT_RETURN_IF_ERROR(Budget::Spend(budget.nfa_states, int64_t{20} * chain, "minLength or maxLength with a pattern"));
  for (uint32_t i = 0; i <= chain; ++i) {
    if (i >= min) nfa.AddEpsilon(from, accept);
    if (i == chain) break;
    const int32_t to = nfa.AddState();
    AddCharacter(nfa, from, to, AllCodePoints(), spelling);
    from = to;
  }
  if (max == kNoLimit) AddCharacter(nfa, from, from, AllCodePoints(), spelling);
  return Determinize(nfa, start, accept, budget);
}

}  // namespace ingot::grammar
