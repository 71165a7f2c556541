#include "grammar/matcher.h"

#include <algorithm>
#include <array>
#include <utility>

namespace ingot::grammar {

namespace {

constexpr size_t kMaxFrames = 4096;

uint64_t PairKey(int32_t a, int32_t b) {
  return static_cast<uint64_t>(static_cast<uint32_t>(a)) << 32 | static_cast<uint32_t>(b);
}

}  // namespace

Matcher::Matcher(std::shared_ptr<const Program> program)
    : program_(std::move(program)), vocabulary_(*program_->vocabulary), walk_(Vocabulary::kMaxTokenBytes + 1) {
  Enter(program_->rule_starts[0], -1, &position_);
  Tidy(&position_);
}

int32_t Matcher::FrameOf(int32_t state, int32_t parent) {
  const auto [it, fresh] = frame_index_.try_emplace(PairKey(state, parent), static_cast<int32_t>(frames_.size()));
  if (fresh) frames_.push_back({state, parent, DepthIn(parent) + 1});
  return it->second;
}

void Matcher::Enter(int32_t first_state, int32_t first_parent, Position* out) {
  to_enter_.push_back({first_state, first_parent});
  while (!to_enter_.empty()) {
    const auto [number, parent] = to_enter_.back();
    to_enter_.pop_back();
    if (!entered_.insert(PairKey(number, parent)).second) continue;
    const State& state = program_->states[number];
    allowance_ -= 1 + static_cast<int64_t>(state.edges.size());
    const int32_t depth = DepthIn(parent);
    if (state.accepting && parent < 0) out->complete = true;
    if (state.accepting && parent >= 0) to_enter_.push_back({frames_[parent].state, frames_[parent].parent});
    if (out->places.size() > kMaxPlaces || allowance_ < -kMaxAllowance) given_up_ = true;
    if (given_up_) break;
    for (const Edge& edge : state.edges) {
      if (depth + program_->states[edge.target].need > kMaxNesting) continue;
      switch (edge.kind) {
        case Edge::kEpsilon:
          to_enter_.push_back({edge.target, parent});
          break;
        case Edge::kLeaf:
          out->places.push_back({edge.arg, 0, edge.min_chars, edge.max_chars, FrameOf(edge.target, parent)});
          break;
        case Edge::kAtom:
          out->atoms.push_back({edge.arg, FrameOf(edge.target, parent)});
          break;
        case Edge::kRule: {
          const int32_t start = program_->rule_starts[edge.arg];
          if (depth + 1 + program_->states[start].need > kMaxNesting) break;
          to_enter_.push_back({start, FrameOf(edge.target, parent)});
          break;
        }
      }
    }
  }
  to_enter_.clear();
  entered_.clear();
}

// Called once for every token.
void Matcher::Refill() { allowance_ = std::min(kMaxAllowance, allowance_ + kAllowancePerToken); }

void Matcher::Tidy(Position* position) {
  const auto tidy = [](auto& list) {
    if (list.size() < 2) return;
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  };
  tidy(position->places);
  tidy(position->atoms);
}

void Matcher::Step(const Position& from, uint8_t byte, Position* to) {
  to->Clear();
  allowance_ -= static_cast<int64_t>(from.places.size());
  for (const Place& place : from.places) {
    if (given_up_) return;
    Place next;
    if (!Advance(place, byte, &next)) continue;
    const Dfa& dfa = program_->leaves[place.leaf]->dfa;
    if (dfa.accepting[next.state]) Return(place.back, to);
    if (!dfa.final[next.state]) to->places.push_back(next);
  }
  Tidy(to);
}

bool Matcher::Accept(int32_t id) {
  if (id < 0 || id >= vocabulary_.size() || vocabulary_.bytes(id).empty()) {
    position_.Clear();
    allowed_ = nullptr;
    return false;
  }
  return vocabulary_.atomic(id) ? AcceptAtom(id) : AcceptText(vocabulary_.bytes(id));
}

bool Matcher::AcceptText(std::string_view text) {
  allowed_ = nullptr;
  Refill();
  for (const char c : text) {
    Step(position_, static_cast<uint8_t>(c), &next_);
    std::swap(position_, next_);
    if (!position_.alive()) break;
  }
  if (frames_.size() > kMaxFrames) DropDeadFrames();
  return position_.alive() || given_up_;
}

bool Matcher::AcceptAtom(int32_t id) {
  allowed_ = nullptr;
  Refill();
  Position out;
  for (const Atom& atom : position_.atoms) {
    if (atom.token == id) Return(atom.back, &out);
  }
  const std::string& bytes = vocabulary_.bytes(id);
  for (const Place& first : position_.places) {
    const Leaf& leaf = *program_->leaves[first.leaf];
    if (!leaf.free_text) continue;
    Place place = first;
    for (size_t i = 0; i < bytes.size(); ++i) {
      if (!Advance(place, static_cast<uint8_t>(bytes[i]), &place)) break;
      if (i + 1 < bytes.size()) continue;
      if (leaf.dfa.accepting[place.state]) Return(place.back, &out);
      if (!leaf.dfa.final[place.state]) out.places.push_back(place);
    }
  }
  Tidy(&out);
  position_ = std::move(out);
  if (frames_.size() > kMaxFrames) DropDeadFrames();
  return position_.alive() || given_up_;
}

// Drops the frames that the position cannot return to.
void Matcher::DropDeadFrames() {
  const std::vector<Frame> old = std::move(frames_);
  frames_.clear();
  frame_index_.clear();
  std::vector<int32_t> moved(old.size(), -1), chain;
  const auto keep = [&](int32_t frame) {
    chain.clear();
    for (; frame >= 0 && moved[frame] < 0; frame = old[frame].parent) chain.push_back(frame);
    for (; !chain.empty(); chain.pop_back()) {
      const Frame& f = old[chain.back()];
      moved[chain.back()] = FrameOf(f.state, f.parent < 0 ? -1 : moved[f.parent]);
    }
  };
  for (Place& place : position_.places) {
    keep(place.back);
    place.back = moved[place.back];
  }
  for (Atom& atom : position_.atoms) {
    keep(atom.back);
    atom.back = moved[atom.back];
  }
}

}  // namespace ingot::grammar
