#include "part_clock.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <map>
#include <utility>

namespace osdn::bench {

PartClock::Mark PartClock::mark() const {
  Mark mark;
  if (device_.is_cpu()) {
    mark.time = std::chrono::steady_clock::now();
    return mark;
  }
  const c10::impl::VirtualGuardImpl guard(device_.type());
  mark.event.emplace(device_.type(), c10::EventFlag::BACKEND_DEFAULT);
  mark.event->record(guard.getStream(device_));
  return mark;
}

double PartClock::between(const Mark& begin, const Mark& end) const {
  if (begin.event) return begin.event->elapsedTime(*end.event) * 1e-3;
  return std::chrono::duration<double>(end.time - begin.time).count();
}

void PartClock::begin(Part part) {
  spans_.push_back({step_, part, mark(), {}});
}

void PartClock::end(Part part) {
  const auto begun =
      std::find_if(spans_.rbegin(), spans_.rend(),
                   [part](const Span& span) { return span.part == part; });
  if (begun != spans_.rend()) begun->end = mark();
}

std::vector<std::array<double, kParts>> PartClock::take() {
  std::vector<std::array<double, kParts>> seconds(step_ + 1);
  for (const Span& span : spans_) {
    seconds[span.step][static_cast<std::size_t>(span.part)] +=
        between(span.begin, span.end);
  }
  spans_.clear();
  step_ = 0;
  return seconds;
}

namespace {

class TimedCollectives final : public dist::Collectives {
 public:
  TimedCollectives(std::unique_ptr<dist::Collectives> inner, PartClock& clock)
      : inner_(std::move(inner)), clock_(clock) {}

  std::string name() const override { return inner_->name(); }
  bool prefers_bursts() const override { return inner_->prefers_bursts(); }
  void reach(const std::vector<dist::BucketMemory>& buckets) override {
    inner_->reach(buckets);
  }
  Ticket sum_to_shards(const dist::BucketMemory& bucket) override {
    return note(inner_->sum_to_shards(bucket), Part::kGradientsWait);
  }
  Ticket sum(const dist::BucketMemory& bucket) override {
    return note(inner_->sum(bucket), Part::kGradientsWait);
  }
  Ticket gather_shards(const dist::BucketMemory& bucket) override {
    return note(inner_->gather_shards(bucket), Part::kWeightsWait);
  }
  void wait(Ticket ticket) override {
    const Part part = part_of_.at(ticket);
    part_of_.erase(ticket);
    clock_.begin(part);
    inner_->wait(ticket);
    clock_.end(part);
  }

 private:
  Ticket note(Ticket ticket, Part part) {
    part_of_[ticket] = part;
    return ticket;
  }

  std::unique_ptr<dist::Collectives> inner_;
  PartClock& clock_;
  std::map<Ticket, Part> part_of_;
};

}  // namespace

std::unique_ptr<dist::Collectives> timed_collectives(
    std::unique_ptr<dist::Collectives> collectives, PartClock& clock) {
  return std::make_unique<TimedCollectives>(std::move(collectives), clock);
}

}  // namespace osdn::bench
