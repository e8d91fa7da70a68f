#pragma once
// How long a run still takes, from how long its parts took of late.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

namespace osdn::report {

/// The usual time of something that is done again and again.
class Pace {
 public:
  /// Follows the last `keep` times.
  explicit Pace(std::size_t keep) : keep_(keep) {}

  void add(double seconds);
  /// The mean of the middle half of them, so that neither a stall nor a slow
  /// beginning counts, and half slow, half fast is in between. (The middle one
  /// of three; nothing of none.)
  std::optional<double> usual() const;

 private:
  std::size_t keep_;
  std::deque<double> seconds_;
};

/// Steps, and what stands between them.
class TimeLeft {
 public:
  /// How often something is still to be done.
  struct Ahead {
    std::int64_t steps = 0;
    std::int64_t validations = 0;
    std::int64_t saves = 0;
  };

  /// Of one step alone, without what stands between it and the next.
  void step(double seconds) { steps_.add(seconds); }
  void validation(double seconds) { validations_.add(seconds); }
  /// As long as training waited for it.
  void save(double seconds) { saves_.add(seconds); }

  /// Nothing before the first step; what has not been done yet counts nothing.
  std::optional<double> seconds(const Ahead& ahead) const;

 private:
  Pace steps_{64};
  Pace validations_{8};
  Pace saves_{8};
};

}  // namespace osdn::report
