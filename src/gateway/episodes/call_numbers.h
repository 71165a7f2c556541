// Assigns sequence numbers to an episode's calls and tracks which calls are recorded, in flight, or possibly recorded.
// Not thread safe: Episode holds its lock while calling it.
//
//   Begin -> pending -> CountRecorded: recorded
//                    -> End: used by a call known only to the pool, or returned
//   returned, and its append was lost -> Settle: recorded, used, or free
//
// 1. A returned number is reused once no higher number is in use.
// 2. CallReward.turn counts pending, recorded, and used numbers in order.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "proto/datapool.pb.h"
#include "proto/gateway.pb.h"

namespace ingot::gateway {

class CallNumbers {
 public:
  // Calls made through an earlier gateway.
  struct Earlier {
    int32_t next = 0;                         // number of the next call
    int32_t first = 0;                        // the first number after the trunk's calls; 0 if there is no trunk
    int32_t first_turn = 0;                   // number of calls in the trunk
    int32_t unrecorded = 0;                   // numbers below `next` that have no recorded call
    std::map<int32_t, std::string> recorded;  // ids of recorded calls, by sequence number
  };
  CallNumbers() = default;
  explicit CallNumbers(Earlier earlier);

  // Returns the number of calls that are recorded or in flight, including the trunk's.
  int32_t made() const { return next_ - unrecorded_; }
  // Returns the sequence number for a new call. It follows all calls that are recorded or in flight.
  int32_t Begin();
  // Describes what the pool may have stored under the sequence number of a call that ends here without a record.
  struct Unrecorded {
    bool used = false;  // the pool has another call, for example one whose response was lost
    // Set if the pool may have the call itself because this request was sent but its response was lost.
    std::optional<v1::AppendCallRequest> lost = {};
  };
  // Frees the sequence number of an unrecorded call, unless the number is used. Returns false if the call was recorded.
  bool End(int32_t sequence, Unrecorded left);
  void CountRecorded(const std::string& call_id, int32_t sequence);
  // Forgets all calls before those in flight. Called when a session begins a new history.
  void ForgetEarlier();

  // Returns the appends whose responses were lost and whose numbers are below numbers in use.
  std::vector<v1::AppendCallRequest> LostAppends() const;
  // Handles the pool's response to a resent append.
  void Settle(const v1::Call& call, const absl::Status& answer);
  // HasUnknown returns true if a number is used by a call with an unknown id. Note reads the id from the pool.
  bool HasUnknown() const { return !used_.empty(); }
  void Note(const v1::EpisodeTree& stored);

  // A position between two calls.
  struct Place {
    std::string call_id;  // the episode's last recorded call; empty = none
    int32_t calls = 0;    // the sequence number that follows that call
  };
  Place LastPlace() const;
  // Returns the id of the recorded call that a reward refers to. Returns 404 if there is none, or UNAVAILABLE if the
  // reward gives a number while LostAppends are unsettled.
  absl::StatusOr<std::string> Find(const v1::CallReward& named, const std::string& episode_id) const;
  // Returns true if the reward refers to calls only by id and they are all recorded here.
  bool Holds(const v1::EpisodeRewardRequest& posted) const;

 private:
  // Returns the id of the recorded call that a client refers to as `sent`, or "" if there is none.
  std::string RecordedAs(const std::string& sent) const;
  // Returns the recorded call at this position (CallReward.turn), or "" if there is none. Calls in flight and calls
  // known only to the pool also occupy positions.
  std::string CallAt(int32_t turn) const;
  // Returns true if the pool may have a call with this number while other calls have higher numbers.
  bool IsUnsettled(int32_t sequence) const {
    return sequence < next_ && lost_.contains(sequence) && !pending_.contains(sequence);
  }
  // Marks the number as used by a call in the pool, so no other call gets it.
  void TakeNumber(int32_t sequence);

  int32_t next_ = 0;
  int32_t first_ = 0;                        // number after the trunk's calls
  int32_t first_turn_ = 0;                   // position of the first number in recorded_, pending_, and used_
  int32_t unrecorded_ = 0;                   // numbers below next_ that have no call, either recorded or in flight
  std::map<int32_t, std::string> recorded_;  // call ids by sequence number
  std::set<int32_t> returned_;               // reused once no higher number is in use
  std::set<int32_t> pending_;                // numbers of calls that are in flight
  std::set<int32_t> used_;                   // numbers of calls known only to the pool
  // Appends whose responses were lost, by number. They may or may not be recorded.
  std::map<int32_t, v1::AppendCallRequest> lost_;
};

}  // namespace ingot::gateway
