// Implements Matcher's mask computation.
#include <algorithm>
#include <array>
#include <utility>

#include "grammar/matcher.h"

namespace ingot::grammar {

// Caps a count of characters. No token has more characters than the longest token has bytes, so all larger counts give
// the same mask. `more` is the number of characters that may have to follow any token.
uint32_t Matcher::CutOff(uint32_t characters, uint32_t more) const {
  return std::min(characters, static_cast<uint32_t>(vocabulary_.longest()) + 1 + more);
}

std::vector<uint32_t> Matcher::KeyOfPosition() const {
  std::vector<uint32_t> key;
  const auto add_stack = [&](int32_t frame) {
    for (; frame >= 0; frame = frames_[frame].parent) key.push_back(static_cast<uint32_t>(frames_[frame].state));
    key.push_back(UINT32_MAX);
  };
  for (const Place& place : position_.places) {
    key.insert(key.end(), {static_cast<uint32_t>(place.leaf), static_cast<uint32_t>(place.state), CutOff(place.need),
                           CutOff(place.room, program_->leaves[place.leaf]->longest_finish)});
    add_stack(place.back);
  }
  key.push_back(UINT32_MAX - 1);
  for (const Atom& atom : position_.atoms) key.push_back(static_cast<uint32_t>(atom.token));
  return key;
}

absl::StatusOr<std::shared_ptr<const TokenSet>> Matcher::Allowed() {
  if (allowed_ != nullptr) return allowed_;
  const auto reject = [] {
    return absl::InvalidArgumentError(
        "the grammar is too ambiguous here: too many of its alternatives start the same way; make them differ earlier");
  };
  if (given_up_ || position_.places.size() > kMaxPlaces) return reject();
  const std::vector<uint32_t> key = KeyOfPosition();
  allowed_ = program_->masks.Find(key);
  if (allowed_ != nullptr) return allowed_;
  TokenSet::Builder tokens(vocabulary_.size());
  for (const Atom& atom : position_.atoms) tokens.Add(atom.token);
  const size_t frames = frames_.size();
  for (const Place& place : position_.places) {
    const std::shared_ptr<const Leaf::Mask> mask = MaskOf(place);
    tokens.Add(mask->tokens);
    WalkBeyond(*mask, place.back, &tokens);
    if (given_up_ || allowance_ < 0) return reject();  // the mask is incomplete, so it is not cached
  }
  // Drops the frames that only this computation entered.
  for (size_t i = frames; i < frames_.size(); ++i) {
    frame_index_.erase(static_cast<uint64_t>(static_cast<uint32_t>(frames_[i].state)) << 32 |
                       static_cast<uint32_t>(frames_[i].parent));
  }
  frames_.resize(frames);
  auto set = std::make_shared<const TokenSet>(tokens.Build());
  program_->masks.Put(key, set, static_cast<int64_t>(set->memory_bytes() + key.size() * sizeof(uint32_t)));
  return allowed_ = std::move(set);
}

std::shared_ptr<const Leaf::Mask> Matcher::MaskOf(const Place& place) {
  const Leaf& leaf = *program_->leaves[place.leaf];
  const bool counts = leaf.boundary >= 0;
  const bool limited = counts || !leaf.counts.finish.empty();
  const Leaf::Key key = {place.state, counts ? CutOff(place.need) : 0,
                         limited ? CutOff(place.room, leaf.longest_finish) : 0};
  allowance_ -= 8;
  if (auto found = leaf.masks.Find(key)) return found;
  auto mask = counts ? CountedMask(place) : WalkLeaf(place);
  leaf.masks.Put(key, mask,
                 static_cast<int64_t>(mask->tokens.memory_bytes() + mask->exits.size() * sizeof(uint32_t) + 64));
  return mask;
}

std::shared_ptr<const Leaf::Mask> Matcher::WalkLeaf(const Place& place) {
  const Leaf& leaf = *program_->leaves[place.leaf];
  const std::span<const Vocabulary::Node> nodes = vocabulary_.nodes();
  const auto end = static_cast<uint32_t>(vocabulary_.node_count());
  auto mask = std::make_shared<Leaf::Mask>();
  TokenSet::Builder tokens(vocabulary_.size());
  std::array<Place, Vocabulary::kMaxTokenBytes + 1> path;
  path[0] = place;
  int64_t visited = 0;
  for (uint32_t i = 1; i < end;) {
    ++visited;
    const Vocabulary::Node& node = nodes[i];
    Place& here = path[node.depth];
    if (!Advance(path[node.depth - 1], node.byte, &here)) {
      i = node.skip;
      continue;
    }
    for (const int32_t id : vocabulary_.TokensAt(i)) tokens.Add(id);
    if (leaf.dfa.accepting[here.state] && node.skip > i + 1) mask->exits.push_back(i);
    i = leaf.dfa.final[here.state] ? node.skip : i + 1;
  }
  allowance_ -= visited / 8;  // cheaper than moving a position
  if (leaf.free_text) AddAtomsInFreeText(place, &tokens);
  mask->tokens = tokens.Build();
  return mask;
}

// Walks the trie once for all counts: without a limit, recording the counts that each token needs.
std::shared_ptr<const Leaf::Profile> Matcher::ProfileOf(const Place& place) {
  const Leaf& leaf = *program_->leaves[place.leaf];
  if (auto found = leaf.profiles.Find(place.state)) return found;
  const std::span<const Vocabulary::Node> nodes = vocabulary_.nodes();
  struct Step {
    int32_t state;
    uint8_t room, filled;
  };
  auto profile = std::make_shared<Leaf::Profile>();
  std::array<Step, Vocabulary::kMaxTokenBytes + 1> path;
  path[0] = {place.state, 0, 0};
  for (uint32_t i = 1; i < vocabulary_.node_count();) {
    const Vocabulary::Node& node = nodes[i];
    const Step& before = path[node.depth - 1];
    Step& here = path[node.depth];
    here = before;
    here.state = leaf.dfa.Next(before.state, node.byte);
    if (here.state < 0) {
      i = node.skip;
      continue;
    }
    const bool closes = leaf.dfa.accepting[here.state];
    if (before.state == leaf.boundary && !closes) here.room = static_cast<uint8_t>(before.filled + 1);
    if (here.state == leaf.boundary && before.state != 0) ++here.filled;
    const auto item = [&](int32_t at) { return Leaf::Profile::Item{at, here.room, here.filled}; };
    for (const int32_t id : vocabulary_.TokensAt(i)) (closes ? profile->whole : profile->within).push_back(item(id));
    if (closes && node.skip > i + 1) profile->exits.push_back(item(static_cast<int32_t>(i)));
    i = closes ? node.skip : i + 1;
  }
  allowance_ -= static_cast<int64_t>(vocabulary_.node_count()) / 8;
  std::sort(profile->within.begin(), profile->within.end(),
            [](const auto& a, const auto& b) { return a.room < b.room; });
  const size_t items = profile->within.size() + profile->whole.size() + profile->exits.size();
  leaf.profiles.Put(place.state, profile, static_cast<int64_t>(items * sizeof(Leaf::Profile::Item) + 64));
  return profile;
}

std::shared_ptr<const Leaf::Mask> Matcher::CountedMask(const Place& place) {
  const std::shared_ptr<const Leaf::Profile> profile = ProfileOf(place);
  auto mask = std::make_shared<Leaf::Mask>();
  TokenSet::Builder tokens(vocabulary_.size());
  tokens.Expect(profile->within.size());
  for (const Leaf::Profile::Item& item : profile->within) {
    if (item.room > place.room) break;
    tokens.Add(item.at);
  }
  const auto fits = [&](const Leaf::Profile::Item& item) {
    return item.room <= place.room && item.filled >= place.need;
  };
  for (const Leaf::Profile::Item& item : profile->whole) {
    if (fits(item)) tokens.Add(item.at);
  }
  for (const Leaf::Profile::Item& item : profile->exits) {
    if (fits(item)) mask->exits.push_back(static_cast<uint32_t>(item.at));
  }
  allowance_ -= static_cast<int64_t>(profile->within.size()) / 32;
  mask->tokens = tokens.Build();
  return mask;
}

// Adds the atomic tokens that stay within the free text or end with it. No atomic token extends beyond its end.
void Matcher::AddAtomsInFreeText(const Place& place, TokenSet::Builder* tokens) const {
  for (const int32_t id : vocabulary_.atoms()) {
    Place here = place;
    const std::string& bytes = vocabulary_.bytes(id);
    const bool whole =
        std::all_of(bytes.begin(), bytes.end(), [&](char c) { return Advance(here, static_cast<uint8_t>(c), &here); });
    if (whole) tokens->Add(id);
  }
}

void Matcher::WalkBeyond(const Leaf::Mask& mask, int32_t back, TokenSet::Builder* tokens) {
  if (mask.exits.empty()) return;
  Position& base = walk_[0];
  base.Clear();
  Return(back, &base);
  Tidy(&base);
  if (base.places.empty()) return;  // only atoms or nothing can follow, so no token continues
  std::array<bool, 256> begins{};
  for (const Place& place : base.places) {
    const Dfa& dfa = program_->leaves[place.leaf]->dfa;
    for (int byte = 0; byte < 256; ++byte) begins[byte] |= dfa.Next(place.state, static_cast<uint8_t>(byte)) >= 0;
  }
  const std::span<const Vocabulary::Node> nodes = vocabulary_.nodes();
  tails_.clear();
  for (const uint32_t exit : mask.exits) {
    for (uint32_t child = exit + 1; child < nodes[exit].skip; child = nodes[child].skip) {
      if (begins[nodes[child].byte]) tails_.push_back({nodes[child].byte, child});
    }
  }
  WalkTails(1, 0, tails_.size(), tokens);
}

// Adds the tokens that can continue from walk_[depth - 1] with a tail in tails_[first, last). Steps tails with equal
// first bytes together.
void Matcher::WalkTails(size_t depth, size_t first, size_t last, TokenSet::Builder* tokens) {
  const std::span<const Vocabulary::Node> nodes = vocabulary_.nodes();
  allowance_ -= static_cast<int64_t>(last - first) / 8;
  std::sort(tails_.begin() + static_cast<ptrdiff_t>(first), tails_.begin() + static_cast<ptrdiff_t>(last));
  for (size_t begin = first, end = first; begin < last; begin = end) {
    const uint8_t byte = tails_[begin].byte;
    while (end < last && tails_[end].byte == byte) ++end;
    if (allowance_ < 0) return;
    Step(walk_[depth - 1], byte, &walk_[depth]);
    if (!walk_[depth].alive()) continue;
    const bool goes_on = !walk_[depth].places.empty();
    const size_t children = tails_.size();
    for (size_t i = begin; i < end; ++i) {
      const uint32_t node = tails_[i].node;
      for (const int32_t id : vocabulary_.TokensAt(node)) tokens->Add(id);
      for (uint32_t child = node + 1; goes_on && child < nodes[node].skip; child = nodes[child].skip) {
        tails_.push_back({nodes[child].byte, child});
      }
    }
    if (tails_.size() > children) WalkTails(depth + 1, children, tails_.size(), tokens);
    tails_.resize(children);
  }
}

}  // namespace ingot::grammar
